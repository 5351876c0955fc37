"""`rerail` as it is installed: the user's Python settings are for the command, not for rerail."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.bare import IGNORED_BY_PYTHON

LAUNCHER = Path(__file__).parents[2] / "launcher"
HOSTILE = {
    "PYTHONHOME": "/nowhere at all",
    "PYTHONPLATLIBDIR": "lib-of-nobody",
    "PYTHONEXECUTABLE": "/nowhere/bin/python",
    "PYTHONHASHSEED": "not a number",
    "PYTHONMALLOC": "no such allocator",
    "PYTHONWARNINGS": "error",
    "PYTHONOPTIMIZE": "2",
    "PYTHONINSPECT": "1",
}
pytestmark = pytest.mark.skipif(not LAUNCHER.is_dir(), reason="needs the sources of the launcher")


@pytest.fixture(params=["first line", "second line of pip", "second line of uv"])
def rerail(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The launcher as an installer writes it, in a folder whose name needs quotes."""
    programs = tmp_path / "my programs é" / "bin"
    programs.mkdir(parents=True)
    for part in ("rerail", "rerail-python"):
        text = (LAUNCHER / part).read_text()
        line = f"#!{sys.executable}"
        if request.param.startswith("second line"):
            quote = '"' if request.param.endswith("pip") else "'"
            path = f"{quote}{sys.executable}{quote}"
            line = f"#!/bin/sh\n'''exec' {path} \"$0\" \"$@\"\n' '''"
        (programs / part).write_text(text.replace("#!python", line, 1))
        (programs / part).chmod(0o755)
    return programs / "rerail"


def run(
    rerail: Path, home: Path, command: list[str], **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(rerail), "run", "-q", "--home", str(home), "--", *command],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_a_python_variable_reaches_the_command_and_not_rerail(
    rerail: Path, tmp_path: Path, name: str
) -> None:
    show = ["sh", "-c", f'printf %s "${name}"; exit 7']
    done = run(rerail, tmp_path / "runs", show, **{name: HOSTILE[name]})
    assert (done.returncode, done.stdout, done.stderr) == (7, HOSTILE[name], "")
    assert (tmp_path / "runs" / "runs").is_dir(), "it was recorded"


def test_modules_of_the_user_do_not_run_in_rerail(rerail: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    modules = tmp_path / "modules"
    modules.mkdir()
    text = f"import sys; open({str(notes)!r}, 'a').write(repr(sys.argv[:1]))\n"
    for name in ("sitecustomize", "usercustomize"):
        (modules / f"{name}.py").write_text(text)
    (modules / "click.py").write_text("raise SystemExit('a click of mine')")
    done = run(rerail, tmp_path / "runs", ["sh", "-c", "exit 7"], PYTHONPATH=str(modules))
    assert (done.returncode, done.stderr) == (7, "")
    assert not notes.exists()
    done = run(rerail, tmp_path / "runs", [sys.executable, "-c", "0"], PYTHONPATH=str(modules))
    assert (done.returncode, done.stderr) == (0, "")
    assert "'-c'" in notes.read_text(), "in the user's own Python they do"


@pytest.mark.skipif(sys.platform != "linux", reason="reads the signals from /proc")
@pytest.mark.parametrize("start", ["", "exec "])
@pytest.mark.parametrize("names", ["PIPE", "XFSZ", "PIPE XFSZ"])
def test_signals_ignored_at_the_start_stay_so(
    rerail: Path, tmp_path: Path, names: str, start: str
) -> None:
    words = [str(rerail), "run", "-q", "--home", str(tmp_path / "runs"), "--"]
    line = f"trap '' {names}; {start}{shlex.join([*words, 'grep', 'SigIgn', '/proc/self/status'])}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
    ignored = int(done.stdout.split()[1], 16)
    found = {number for number in IGNORED_BY_PYTHON if ignored >> (number - 1) & 1}
    assert found == {getattr(signal, f"SIG{name}") for name in names.split()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the signals from /proc")
@pytest.mark.parametrize("start", ["launcher", "-m"])
def test_an_ignored_sigchld_stays_ignored(rerail: Path, tmp_path: Path, start: str) -> None:
    """Shells handle it themselves, so its parent here is a program that ignores it."""
    starter = [str(rerail)] if start == "launcher" else [sys.executable, "-m", "rerail"]
    status = tmp_path / "status"
    command = [*starter, "run", "-q", "--home", str(tmp_path / "runs"), "--", "cp"]
    command += ["/proc/self/status", str(status)]
    parent = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        " os.fork() or os.execv(sys.argv[1], sys.argv[1:])\n"
        "try: os.wait()\n"
        "except ChildProcessError: pass"
    )
    subprocess.run([sys.executable, "-c", parent, *command], check=True, timeout=120)
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("SigIgn")]
    assert int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1
    (folder,) = (tmp_path / "runs" / "runs").iterdir()
    assert '"exit_code": 0' in (folder / "run.json").read_text(), "its own ending was seen"


def test_a_process_of_rerails_own_is_out_of_reach_too() -> None:
    """Its interpreter is ours, and what it starts finds the variable."""
    asks = (
        "import os, subprocess, sys; from rerail.platform.own_process import own_interpreter;"
        "words = [*own_interpreter(), '-c', sys.argv[1]]; subprocess.run(words, check=True)"
    )
    answers = (
        "import os, sys; from rerail import bare; print(os.environ.get('PYTHONEXECUTABLE'));"
        "bare.give_back_variables(); print(os.environ['PYTHONEXECUTABLE']); print(sys.executable)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-E",
            "-c",
            f"import sys; sys.executable = {sys.executable!r}; {asks}",
            answers,
        ],
        env={**os.environ, "PYTHONEXECUTABLE": sys.executable + "-that is not there"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = ["None", f"{sys.executable}-that is not there", sys.executable]
    assert done.stdout.splitlines() == expected, done.stderr


def test_a_link_to_it_starts_it(rerail: Path, tmp_path: Path) -> None:
    (tmp_path / "near").symlink_to(rerail)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rerail").symlink_to("../near")
    done = run(tmp_path / "elsewhere" / "rerail", tmp_path / "runs", ["sh", "-c", "exit 7"])
    assert (done.returncode, done.stderr) == (7, "")


def test_it_is_found_where_only_a_variable_says(rerail: Path, tmp_path: Path) -> None:
    """As after `pip install --target`."""
    import rerail as package

    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "rerail").symlink_to(Path(package.__file__).parent)
    other = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    packages = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    script = rerail.with_name("rerail-python")
    text = script.read_text().replace(str(sys.executable), str(other / "bin" / "python"))
    script.write_text(text)
    places = f"{folder}{os.pathsep}{packages}"
    more = {"PYTHONPATH": places, "PYTHONEXECUTABLE": "/nowhere/bin/python"}
    show = ["sh", "-c", 'printf %s "$PYTHONEXECUTABLE"; exit 7']
    done = run(rerail, tmp_path / "runs", show, **more)
    assert (done.returncode, done.stdout, done.stderr) == (7, "/nowhere/bin/python", "")
