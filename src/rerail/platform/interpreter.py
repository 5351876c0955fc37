"""The interpreter that a command will use, told without running it.

In: the command, its folder and environment. Out: path, version, environment and site-packages of
the interpreter. Promises: imports and runs nothing of the target; follows PATH, virtual
environments, shebangs, pyenv's shims, `env`, `nice`, `uv run` and the like, and simple shell
scripts as far as they can be told from outside, and says how it came to its answer.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_HOPS = 8
_PYTHON_NAME = re.compile(r"^(python|pypy)(\d+(\.\d+)*)?(\.exe)?$")
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh"])
# Programs that run the rest of their arguments.
_WRAPPERS = frozenset(
    [
        "nice",
        "ionice",
        "nohup",
        "time",
        "timeout",
        "stdbuf",
        "setsid",
        "taskset",
        "numactl",
        "chrt",
        "xvfb-run",
        "srun",
        "mpirun",
        "mpiexec",
        "catchsegv",
        "unbuffer",
    ]
)
# `uv run …`, `poetry run …`: the project's own environment comes first on PATH.
_PROJECT_TOOLS = frozenset(["uv", "poetry", "pipenv", "pdm", "hatch", "rye"])
_CONDA_TOOLS = frozenset(["conda", "mamba", "micromamba"])
_SCRIPT_BYTES = 65536


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
        name = Path(arguments[0]).name
        if _PYTHON_NAME.match(name):
            return _describe(program, how) if program is not None else None
        if name in _SHELLS:
            arguments, environ = _of_shell(arguments[1:], cwd, environ)
            how = f"a script for {name}"
        elif name in _PROJECT_TOOLS or name in _CONDA_TOOLS:
            environ = _with_environment_of(name, arguments, cwd, environ)
            arguments, how = _after_run(arguments), f"behind {name}"
        elif name in _WRAPPERS:
            arguments, how = _after_wrapper(arguments[1:], cwd, environ), f"behind {name}"
        else:
            shebang = _shebang(program) if program is not None else None
            if not shebang:
                return None
            arguments, how = [*shebang, str(program), *arguments[1:]], f"first line of {program}"
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
        if version and exact.is_file():
            return exact
        # "3.11" stands for the newest 3.11.x that is installed.
        for folder in sorted(root.glob(f"versions/{version}.*"), reverse=True) if version else []:
            if (folder / "bin" / shim.name).is_file():
                return folder / "bin" / shim.name
    return None


def _with_environment_of(
    tool: str, arguments: list[str], cwd: Path, environ: Mapping[str, str]
) -> Mapping[str, str]:
    if tool in _CONDA_TOOLS:
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


def _after_run(arguments: list[str]) -> list[str]:
    """What follows `run` and its flags in `uv run --with x python train.py`."""
    rest = arguments[arguments.index("run") + 1 :] if "run" in arguments else []
    for at, argument in enumerate(rest):
        if argument == "--":
            return rest[at + 1 :]
        is_value = at > 0 and rest[at - 1].startswith("-") and "=" not in rest[at - 1]
        if _PYTHON_NAME.match(Path(argument).name):
            return rest[at:]
        if argument.endswith(".py"):  # `uv run train.py`
            return ["python", *rest[at:]]
        if not argument.startswith("-") and not is_value:
            return rest[at:]
    return []


def _without_assignments(
    arguments: list[str], environ: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    """Skip `exec`, `env` with its flags, and NAME=value in front of a command."""
    while arguments:
        head = arguments[0]
        if head in ("exec", "command") or Path(head).name == "env":
            arguments = arguments[1:]
            while arguments and arguments[0].startswith("-"):
                takes_value = arguments[0] in ("-u", "--unset", "-C", "--chdir")
                if arguments[0] in ("-S", "--split-string") and len(arguments) > 1:
                    arguments = ["-S", *shlex.split(arguments[1]), *arguments[2:]]
                arguments = arguments[2 if takes_value else 1 :]
        elif re.match(r"^[A-Za-z_]\w*=", head):
            name, _, value = head.partition("=")
            environ = {**environ, name: value}
            arguments = arguments[1:]
        else:
            break
    return arguments, environ


def _resolve(program: str, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    if "/" in program:
        path = cwd / program
        return path if path.is_file() else None
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = cwd / (folder or ".") / program
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _shebang(program: Path) -> list[str] | None:
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
    arguments: list[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    """The last command of `sh -c "…"` or of a script that starts a Python.

    `source venv/bin/activate` in it puts that environment first on PATH.
    """
    text = ""
    for at, argument in enumerate(arguments):
        if re.match(r"^-[a-z]*c[a-z]*$", argument) and at + 1 < len(arguments):
            text = arguments[at + 1]
            break
        if not argument.startswith(("-", "+")):
            try:
                with (cwd / argument).open(errors="replace") as file:
                    text = file.read(_SCRIPT_BYTES)
            except OSError:
                pass
            break
    activated = re.findall(r"(?:^|[\s;&])(?:source|\.)\s+[\"']?([^\s;&\"']+)/activate\b", text)
    for folder in activated:
        if (cwd / folder).is_dir():
            environ = _with_first_on_path(cwd / folder, environ)
    return _last_python_command(text), environ


def _last_python_command(script: str) -> list[str]:
    """The last line that starts a Python, directly or behind a wrapper; else the first command."""
    found: list[str] = []
    first: list[str] = []
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||;|\||&(?!\d)", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                continue
            if not words:
                continue
            first = first or words
            if any(_PYTHON_NAME.match(Path(word).name) or word == "torchrun" for word in words):
                found = words
    return found or first


def _after_wrapper(arguments: list[str], cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """The first argument that is a program; a wrapper's own flags and numbers are not."""
    for at, argument in enumerate(arguments):
        name = Path(argument).name
        if argument.startswith("-") or re.match(r"^[\d.]+[smhd]?$", argument):
            continue
        if name in _WRAPPERS or _PYTHON_NAME.match(name):
            return arguments[at:]
        if re.match(r"^[A-Za-z_]\w*=", argument) or _resolve(argument, cwd, environ) is not None:
            return arguments[at:]
    return []


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
