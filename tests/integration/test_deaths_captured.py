"""Every way to die, wherever in the tree: it is in the record, with its signal and its place."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from memory_cgroup import small_memory_group
from run_driver import PROGRAMS, RERAIL, Finished, compiled_library, python, run_recorded

from rerail.diagnosis import diagnose
from rerail.evidence import collect_run

SIGNALS = {
    "segv": "SIGSEGV",
    "bus": "SIGBUS",
    "fpe": "SIGFPE",
    "ill": "SIGILL",
    "abrt": "SIGABRT",
    "deep": "SIGSEGV",
    "kill": "SIGKILL",
    "term": "SIGTERM",
}
CAUGHT = {"segv", "bus", "fpe", "ill", "abrt", "deep"}  # the handler in the process sees these
PLACES = ["main", "thread", "fork", "spawn", "shell"]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_library(PROGRAMS / "run_die.c", tmp_path_factory.mktemp("native"))


def die(home: Path, library: Path, where: str, how: str) -> Finished:
    return run_recorded(
        home, sys.executable, str(PROGRAMS / "run_die.py"), str(library), where, how
    )


def check(done: Finished, where: str, how: str) -> None:
    name = SIGNALS[how]
    if where in ("main", "thread"):
        assert done.status == -signal.Signals[name]
    else:
        assert done.status == 0, done.stderr  # the parent takes it calmly
    (dead,) = [process for process in done.processes() if process.signal == name]
    assert dead.ending_source is not None
    if where == "shell":
        assert len(done.processes()) == 3
        (shell,) = [process for process in done.processes() if process.pid == dead.parent_pid]
        # All is over within some 40 ms: the shell may be gone before anybody could look at it after
        # its exec, and what is started by something unknown is a child, not the main program.
        assert dead.role in (("main",) if shell.role == "shell" else ("child", shell.role))
    if how not in CAUGHT:
        return
    (crash,) = done.folder.crashes()
    assert (crash.pid, crash.start_ticks, crash.signal) == (dead.pid, dead.start_ticks, name)
    assert crash.is_main_thread == (where != "thread")
    functions = [frame.function for frame in crash.threads[0].native]
    assert any(f"die_{how}" in (function or "") for function in functions[:6]), functions
    libraries = [frame.library for frame in crash.threads[0].native if frame.library]
    assert any(path.endswith("librundie.so") for path in libraries)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", ["segv", "abrt", "kill"])
def test_death_everywhere(tmp_path: Path, library: Path, where: str, how: str) -> None:
    check(die(tmp_path, library, where, how), where, how)


@pytest.mark.parametrize("how", ["bus", "fpe", "ill", "deep", "term"])
def test_every_way_to_die(tmp_path: Path, library: Path, how: str) -> None:
    check(die(tmp_path, library, "main", how), "main", how)


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", [how for how in SIGNALS if how != "deep"])
def test_every_way_everywhere(tmp_path: Path, library: Path, where: str, how: str) -> None:
    check(die(tmp_path, library, where, how), where, how)


@pytest.mark.slow
def test_two_hundred_deaths_without_a_lost_record(tmp_path: Path, library: Path) -> None:
    chance = random.Random(200)
    for attempt in range(200):
        where = chance.choice(PLACES)
        how = chance.choice([how for how in SIGNALS if how != "deep" or where == "main"])
        home = tmp_path / str(attempt)
        try:
            check(die(home, library, where, how), where, how)
        except AssertionError as error:
            raise AssertionError(f"attempt {attempt}: {how} in {where}: {error}") from error
        shutil.rmtree(home)


@pytest.fixture
def memory_group(tmp_path: Path) -> Iterator[Path]:
    with small_memory_group(tmp_path.name, 64 << 20) as group:
        yield group


def test_an_out_of_memory_kill_is_told_from_other_kills(tmp_path: Path, memory_group: Path) -> None:
    """The command moves itself into a small cgroup and takes more than there is."""
    code = (
        "import os",
        f"open({str(memory_group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))",
        "kept = []",
        "while True: kept.append(bytearray(4 << 20))",
    )
    done = run_recorded(tmp_path, *python(*code))
    assert done.status == -signal.SIGKILL
    after = done.folder.after()
    kills = {limit.source: limit.oom_kills for limit in after.memory_limits if limit.oom_kills}
    assert any(memory_group.name in source for source in kills), after
    (limit,) = [limit for limit in after.memory_limits if memory_group.name in limit.source]
    assert limit.limit_bytes == 64 << 20


def test_a_kill_from_outside_is_no_out_of_memory(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, *python("import os; os.kill(os.getpid(), 9)"))
    after = done.folder.after()
    assert not any(limit.oom_kills for limit in after.memory_limits)
    if after.machine_oom_kills == 0:  # else another job of this machine was killed meanwhile
        asked = [*RERAIL, "explain", "--home", str(done.home), "last"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=180).stdout
        assert "host-oom" not in said
        assert "Somebody else sent the signal" in " ".join(said.split())


def test_a_native_thread_whose_stack_ran_out_is_diagnosed_without_a_record(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the library that dies")
    path = tmp_path_factory.mktemp("native") / "libfaults.so"
    source = Path(__file__).parents[1] / "agent" / "faults.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-pthread", "-o", path, source], check=True)
    done = run_recorded(
        tmp_path,
        *python("import ctypes, sys; ctypes.CDLL(sys.argv[1]).overflow_in_native_thread()"),
        str(path),
    )
    assert done.status == -signal.SIGSEGV
    assert list(done.folder.crashes()) == []
    leading = diagnose(collect_run(done.folder)).leading
    assert leading is not None and leading.cause.id == "stack-overflow"
