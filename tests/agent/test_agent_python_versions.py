"""One build of the agent serves every CPython from 3.8 on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from agent_runs import PROGRAMS, Runner, library_functions

# t: without the global lock; d: a debug build.
VERSIONS = [
    "3.8",
    "3.9",
    "3.10",
    "3.11",
    "3.12",
    "3.13",
    "3.14",
    "3.13t",
    "3.14t",
    "3.11d",
    "3.14d",
]


def find_python(version: str) -> str:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    number = version.rstrip("td")
    name = re.escape(number) + r"(\.\d+)?" + version[len(number) :]
    for path in sorted(root.glob(f"versions/{number}*/bin/python"), reverse=True):
        if re.fullmatch(name, path.parent.parent.name):
            return str(path)
    found = shutil.which(f"python{version}")
    if found and ".pyenv/shims" not in found:
        return found
    pytest.skip(f"no Python {version} here")


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    return find_python(request.param)


@pytest.mark.parametrize("place", ["main", "python-thread", "native-thread", "forked"])
@pytest.mark.parametrize("number", [11, 6])
def test_crash(run: Runner, faults: str, python: str, place: str, number: int) -> None:
    ended = run([str(PROGRAMS / "agent_die.py"), faults, str(number), place], python=python)

    expected = {11: "write_through_null", 6: "abort_here"}[number]
    assert library_functions(ended.crash, faults)[0] == expected
    assert ended.crash.is_complete
    if place != "native-thread":
        assert ended.crash.threads[0].python[0].function == "die_here"
    if place == "forked":
        assert (ended.status, ended.stdout) == (0, f"ended by {number}\n")
    else:
        assert ended.status == -number


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-S"]], ids=str)
def test_preloaded(run: Runner, faults: str, python: str, flags: list[str]) -> None:
    code = f"import ctypes\ndef die(): ctypes.CDLL({faults!r}).fault(11)\ndie()"
    ended = run([*flags, "-c", code], python=python)

    assert ended.status == -11
    assert "die" in [frame.function for frame in ended.crash.threads[0].python]


def test_faulthandler_and_spawn(run: Runner, faults: str, python: str, tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(f"""
import ctypes, faulthandler, multiprocessing
def die():
    faulthandler.enable()
    ctypes.CDLL({faults!r}).fault(11)
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=die)
    process.start(); process.join(); print(process.exitcode)
""")
    ended = run([str(script)], python=python)

    assert (ended.status, ended.stdout) == (0, "-11\n")
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert library_functions(ended.crash, faults)[0] == "write_through_null"


EVERYTHING_AT_ONCE = """
import concurrent.futures, importlib, inspect, os, signal, sys, threading, traceback, warnings
import pickle, faulthandler, importlib.util
def show(*a): print(*a, flush=True)
show(inspect.signature(signal.signal), inspect.signature(os._exit))
show(pickle.loads(pickle.dumps(os._exit)) is os._exit, repr(os._exit), signal.signal.__name__)
show(signal.getsignal(signal.SIGSEGV), faulthandler.is_enabled())
with concurrent.futures.ThreadPoolExecutor(4) as pool: show(sum(pool.map(abs, range(-50, 50))))
def fails(): raise ValueError("in a thread")
t = threading.Thread(target=fails); t.start(); t.join()
importlib.reload(threading); importlib.reload(signal)
show(signal.signal(signal.SIGUSR1, signal.SIG_IGN) is not None)
try: signal.signal(999, signal.SIG_IGN)
except ValueError: show(traceback.format_exc())
try: import there_is_no_such_module
except ImportError: show(traceback.format_exc())
spec = importlib.util.find_spec("multiprocessing.util")
show(type(spec.loader).__name__, sorted(vars(spec.loader)))
import multiprocessing.util as u
show(sorted(vars(u.__loader__)), u.__spec__.name, type(u.__loader__).__name__)
sys.exit("the end")
"""


def test_behaves_the_same(run: Runner, python: str, tmp_path: Path) -> None:
    script = tmp_path / "all.py"
    script.write_text(EVERYTHING_AT_ONCE)
    bare, ended = (run([str(script)], python=python, agent=agent) for agent in (False, True))

    assert ended.status == bare.status == 1
    # Looking for a module without importing it leaves the step on its loader until it is loaded.
    seen = ended.stdout.replace("['exec_module', 'name', 'path']", "['name', 'path']")
    assert seen == bare.stdout
    assert ended.stderr == bare.stderr
    assert ended.box.notes == []


def test_stub_is_old_syntax(python: str) -> None:
    """Compiles under every version, byte code thrown away."""
    import rerail.agent

    stub = Path(rerail.agent.__file__).parent / "stub"
    code = "import ast, sys; [ast.parse(open(p, 'rb').read(), p) for p in sys.argv[1:]]"
    files = [str(path) for path in stub.glob("*.py")]
    subprocess.run([python, "-c", code, *files], check=True, timeout=180)


def test_a_census_goes_unnoticed(run: Runner, python: str) -> None:
    """What a frame's variables are differs from version to version."""
    ended = run([str(PROGRAMS / "census_untouched.py"), "local"], python=python)

    assert (ended.status, ended.stderr) == (0, "")
    assert "kept" not in ended.stdout and "changed" not in ended.stdout
    assert ended.stdout.endswith("done\n")
    assert list(ended.folder.glob("*.census"))


@pytest.mark.parametrize("version", ["3.10", "3.11"])
def test_a_living_subinterpreter_leaves_the_exit_status_alone(version: str, tmp_path: Path) -> None:
    program = (
        "import sys, _xxsubinterpreters as s\n"
        "one = s.create()\n"
        "s.run_string(one, 'import threading')\n"
        "sys.exit(2)\n"
    )
    command = [find_python(version), "-c", program]
    recorded = [sys.executable, "-m", "rerail", "run", "--", *command]
    ended = subprocess.run(recorded, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 2, ended.stderr
