"""The interpreter that a command will use, told without running it.

In: the command, its folder and environment. Out: path, version, environment and site-packages of
the interpreter. Promises: imports and runs nothing of the target; follows PATH, virtual
environments, shebangs, pyenv's shims, `env`, `nice`, `uv run` and the like, and simple shell
scripts as far as they can be told from outside, and says how it came to its answer.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.command_line import (
    inner_at,
    is_assignment,
    is_python,
    program_name,
    python_command_of,
    shell_text_at,
    split_env_at,
    split_words,
)
from rerail.platform.patterns import linear
from rerail.platform.wrapper_table import CONDA_TOOLS, PROJECT_TOOLS, SHELL_WORDS, SHELLS

_MOST_HOPS = 8
_SCRIPT_BYTES = 65536
_ACTIVATED = linear(r"(?:^|[\s;&])(?:source|\.)\s+[\"']?([^\s;&\"']+)/activate\b")
_MOST_PTH_BYTES = 1 << 20


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter as it stands on disk."""

    path: str
    real_path: str
    version: str | None
    prefix: str | None  # the virtual environment, or the installation
    site_packages: list[str]
    found_by: str


def find_interpreter(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> Interpreter | None:
    """The first interpreter that the command leads to; None if no hop ends at one."""
    arguments, how = list(command), "the command itself"
    for _ in range(_MOST_HOPS):
        arguments, environ = _without_assignments(arguments, environ)
        if not arguments:
            return None
        program = _resolve(arguments[0], cwd, environ)
        if program is not None and program.parent.name == "shims":
            program = _behind_shim(program, cwd, environ) or program
        name = program_name(arguments[0])
        inner = inner_at(arguments)
        if is_python(name):
            return _describe(program, how) if program is not None else None
        if name in SHELLS:
            arguments, environ = _of_shell(arguments, cwd, environ)
            how = f"a script for {name}"
        elif inner is not None:
            environ = _with_environment_of(name, arguments[:inner], cwd, environ)
            is_script = arguments[inner : inner + 1] and arguments[inner].endswith(".py")
            before = ["python"] if is_script and name in PROJECT_TOOLS else []  # `uv run train.py`
            arguments, how = [*before, *arguments[inner:]], f"behind {name}"
        else:
            first = shebang(program) if program is not None else None
            if not first:
                return None
            arguments, how = [*first, str(program), *arguments[1:]], f"first line of {program}"
    return None


def _with_first_on_path(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    return {**environ, "PATH": f"{folder}{os.pathsep}{environ.get('PATH', os.defpath)}"}


def _behind_shim(shim: Path, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """pyenv chooses by PYENV_VERSION, a .python-version file further up, or its global one."""
    root = shim.parent.parent
    wanted = environ.get("PYENV_VERSION", "")
    files = [folder / ".python-version" for folder in (cwd, *cwd.parents)] + [root / "version"]
    for file in [] if wanted else files:
        try:
            wanted = file.read_text(errors="replace").strip()
        except OSError:
            continue
        break
    for version in re.split(r"[:\s]+", wanted):
        exact = root / "versions" / version / "bin" / shim.name
        if version and os.path.isfile(exact):  # noqa: PTH113
            return exact
        # "3.11" stands for the newest 3.11.x that is installed.
        pattern = f"versions/{glob.escape(version)}.*"
        for folder in sorted(root.glob(pattern), reverse=True) if version else []:
            if os.path.isfile(folder / "bin" / shim.name):  # noqa: PTH113
                return folder / "bin" / shim.name
    return None


def _with_environment_of(
    tool: str, arguments: list[str], cwd: Path, environ: Mapping[str, str]
) -> Mapping[str, str]:
    if tool not in CONDA_TOOLS and tool not in PROJECT_TOOLS:
        return environ
    if tool in CONDA_TOOLS:
        for flag in ("-n", "--name", "-p", "--prefix"):
            if flag in arguments[:-1]:
                name = arguments[arguments.index(flag) + 1]
                for root in _conda_roots(environ):
                    prefix = cwd / name if flag in ("-p", "--prefix") else root / "envs" / name
                    if (prefix / "bin").is_dir():
                        return _with_first_on_path(prefix / "bin", environ)
        return environ
    for folder in (cwd, *cwd.parents):
        if (folder / ".venv" / "bin").is_dir():
            return _with_first_on_path(folder / ".venv" / "bin", environ)
    return environ


def _conda_roots(environ: Mapping[str, str]) -> list[Path]:
    """Where conda may be installed, from the variables that it sets itself."""
    roots = [
        Path(environ[name]).parent.parent
        for name in ("CONDA_EXE", "MAMBA_EXE")
        if environ.get(name)
    ]
    roots += [Path(environ[n]) for n in ("MAMBA_ROOT_PREFIX", "CONDA_PREFIX") if environ.get(n)]
    return roots or [Path("/")]


def _without_assignments(
    arguments: list[str], environ: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    """Skip `exec`, `env` with its flags, and NAME=value in front of a command."""
    while arguments:
        is_env = program_name(arguments[0]) == "env"
        if not (is_env or arguments[0] in SHELL_WORDS or is_assignment(arguments[0])):
            break
        text = split_env_at(arguments)
        if text is not None:
            arguments = [*split_words(arguments[text]), *arguments[text + 1 :]]
            continue
        inner = inner_at(arguments) or 1
        for word in arguments[:inner]:
            if is_assignment(word):
                name, _, value = word.partition("=")
                environ = {**environ, name: value}
        arguments = arguments[inner:]
    return arguments, environ


def _resolve(program: str, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the file that a program's name stands for, or None.

    Path.is_file raises for a folder that may not be searched and for a name that is too long;
    os.path.isfile says False, and the search goes on as a shell's does.
    """
    if "/" in program:
        path = cwd / program
        return path if os.path.isfile(path) else None  # noqa: PTH113
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = cwd / (folder or ".") / program
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


def shebang(program: Path) -> list[str] | None:
    """The interpreter that a script's first line names, with its arguments."""
    try:
        with program.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").strip().split(None, 1)
    if not words:
        return None
    # The kernel gives everything after the program as one argument; env -S splits it.
    rest = words[1].split() if len(words) > 1 else []
    return [words[0], *rest]


def _of_shell(
    words: list[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    """The last command of `sh -c "…"` or of a script that starts a Python.

    `source venv/bin/activate` in it puts that environment first on PATH.
    """
    text_at = shell_text_at(words)
    text = words[text_at] if text_at is not None else _script_text(words, cwd)
    for folder in _ACTIVATED.findall(text):
        if (cwd / folder).is_dir():
            environ = _with_first_on_path(cwd / folder, environ)
    return python_command_of(text), environ


def _script_text(words: list[str], cwd: Path) -> str:
    """The script that a shell is given: its first argument that is no option."""
    script = next((word for word in words[1:] if not word.startswith(("-", "+"))), None)
    if script is None:
        return ""
    try:
        with (cwd / script).open(errors="replace") as file:
            return file.read(_SCRIPT_BYTES)
    except OSError:
        return ""


def _describe(program: Path, how: str) -> Interpreter:
    real = Path(os.path.realpath(program))
    prefix, version, is_isolated = _environment_of(program)
    if prefix is None:
        prefix = real.parent.parent
    version = version or _version_of(program, real, prefix)
    folders = _site_packages(prefix, version)
    if not is_isolated:
        folders += [f for f in _site_packages(real.parent.parent, version) if f not in folders]
    return Interpreter(str(program), str(real), version, str(prefix), folders, how)


def _environment_of(program: Path) -> tuple[Path | None, str | None, bool]:
    """Folder and Python version of the virtual environment that the program stands in.

    The third value says that the base installation's packages are not visible.
    """
    for folder in (program.parent.parent, program.parent):
        try:
            text = (folder / "pyvenv.cfg").read_text(errors="replace")
        except OSError:
            continue
        values = {
            key.strip().lower(): value.strip()
            for key, separator, value in (line.partition("=") for line in text.splitlines())
            if separator
        }
        version = values.get("version") or values.get("version_info")
        # As Python's own site module has it: what is not said is true.
        sees_base = values.get("include-system-site-packages", "true").lower() == "true"
        return folder, _three_numbers(version), not sees_base
    return None, None, True


def _three_numbers(version: str | None) -> str | None:
    found = re.match(r"\d{1,4}\.\d{1,4}(\.\d{1,6})?", version or "")
    return found[0] if found else None


def _version_of(program: Path, real: Path, prefix: Path) -> str | None:
    for path in (real, program):
        found = re.search(r"(?:python|pypy)(\d+\.\d+)", path.name)
        if found:
            # pyenv and conda name the folder after the exact version.
            exact = re.search(rf"{re.escape(found[1])}\.\d+", str(real.parent.parent))
            return exact[0] if exact else found[1]
    try:
        names = sorted(path.name for path in (prefix / "lib").glob("python3*"))
    except OSError:
        return None
    return names[-1].removeprefix("python") if names else None


def _site_packages(prefix: Path, version: str | None) -> list[str]:
    minor = ".".join(version.split(".")[:2]) if version else "3*"
    folders: list[str] = []
    for library in ("lib", "lib64"):
        for name in ("site-packages", "dist-packages"):
            try:
                found = sorted(prefix.glob(f"{library}/python{minor}/{name}"))
            except OSError:
                continue
            folders += [str(path) for path in found if path.is_dir()]
    if str(prefix) == "/usr":  # Debian keeps its own packages apart
        folders += [p for p in ("/usr/lib/python3/dist-packages",) if Path(p).is_dir()]
    real: dict[str, str] = {}
    for folder in folders:
        real.setdefault(os.path.realpath(folder), folder)
    return list(real.values())


def editable_folders(site_packages: Sequence[str]) -> Iterator[Path]:
    """Folders that .pth files add: packages installed for development."""
    for folder in site_packages:
        try:
            files = sorted(Path(folder).glob("*.pth"))
        except OSError:
            continue
        for file in files:
            try:
                with file.open("rb") as opened:
                    text = opened.read(_MOST_PTH_BYTES).decode(errors="replace")
            except OSError:
                continue
            for line in text.splitlines():
                if line.startswith("/") and Path(line).is_dir():
                    yield Path(line)
