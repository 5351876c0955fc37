"""`rerail run` ends as the command ended, and the record says the same."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_driver import PROGRAMS, python, run_recorded

from rerail.store import RunFolder, Store

FATAL = [
    *("SIGABRT", "SIGALRM", "SIGBUS", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL"),
    *("SIGPIPE", "SIGPROF", "SIGQUIT", "SIGSEGV", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGUSR1"),
    *("SIGUSR2", "SIGVTALRM", "SIGXCPU", "SIGXFSZ", "SIGIO", "SIGPWR"),
    *(["SIGSTKFLT"] if hasattr(signal, "SIGSTKFLT") else []),  # has a name since Python 3.11
]


def endings(home: Path, words: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "run_many_endings.py"), str(home), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def outcomes(home: Path) -> list[tuple[str, int | None, str | None]]:
    found = []
    for path in sorted((home / "runs").iterdir()):
        outcome = RunFolder(path).info().outcome
        assert outcome is not None
        found.append((outcome.kind, outcome.exit_code, outcome.signal))
    return found


@pytest.mark.thorough
def test_every_exit_code(tmp_path: Path) -> None:
    words = [str(code) for code in range(256)]
    assert endings(tmp_path, words) == {word: word for word in words}
    recorded = outcomes(tmp_path)
    assert sorted(recorded) == sorted(("exit" if code else "ok", code, None) for code in range(256))


@pytest.mark.thorough
def test_every_fatal_signal(tmp_path: Path) -> None:
    assert endings(tmp_path, FATAL) == {name: name for name in FATAL}
    assert sorted(outcomes(tmp_path), key=str) == sorted(
        (("signal", None, name) for name in FATAL), key=str
    )


def test_a_real_time_signal(tmp_path: Path) -> None:
    number = signal.SIGRTMIN + 3
    done = run_recorded(tmp_path, "sh", "-c", f"kill -{number} $$")
    assert done.status == -number
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.signal == "SIGRTMIN+3"


def test_a_core_of_the_command_is_noted_and_none_of_ours_is_left(tmp_path: Path) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"cores of this machine go elsewhere: {pattern}")
    done = run_recorded(
        tmp_path / "home",
        *python("import os; os.abort()"),
        options=["--no-agent"],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)),
    )
    assert done.status == -signal.SIGABRT
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("core")]) == 1
    (end,) = done.events("process-ended")
    assert end.data["core"] is True


def test_the_summary_says_how_long_and_how(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, "sh", "-c", "exit 4")
    info = done.folder.info()
    assert info.outcome is not None and info.state == "ended"
    assert info.outcome.summary.startswith("the command ended with exit code 4 after ")
    assert info.elapsed_seconds is not None and info.elapsed_seconds < 60


def test_recording_from_python_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path",
        "from rerail.recorder import record; from rerail.store import Store",
        "def state():",
        "    return (signal.pthread_sigmask(signal.SIG_BLOCK, ()),",
        "        signal.getsignal(signal.SIGCHLD),",
        "        sorted(os.listdir('/proc/self/fd')),",
        "        open(f'/proc/self/task/{os.getpid()}/children').read())",
        f"store = Store(Path({str(tmp_path / 'home')!r}))",
        "record(['true'], store)",
        "before = state()",
        "for n in range(3): assert record(['sh', '-c', 'exit 3'], store).exit_code == 3",
        "assert state() == before, (before, state())",
    )
    subprocess.run(python(*code), check=True, timeout=180, stdin=subprocess.DEVNULL)
    assert len(list((tmp_path / "home" / "runs").iterdir())) == 4


def test_a_sense_that_cannot_be_closed_costs_its_own_data_alone(tmp_path: Path) -> None:
    looked = tmp_path / "looked"
    code = (
        "from pathlib import Path",
        "from rerail.recorder import record; from rerail.store import Store",
        "from rerail.recorder.stragglers.watch import RankWatch",
        "def close(self): raise OSError('it cannot be closed')",
        f"def look(self): Path({str(looked)!r}).touch()",
        "RankWatch.close, RankWatch.look = close, look",
        f"store = Store(Path({str(tmp_path / 'home')!r}))",
        f"waits = 'until [ -e {looked} ]; do sleep 0.05; done; exit 3'",
        "assert record(['sh', '-c', waits], store).exit_code == 3",
    )
    subprocess.run(python(*code), check=True, timeout=180, stdin=subprocess.DEVNULL)
    folder = Store(tmp_path / "home").resolve("last")
    assert folder.info().state == "ended"
    missing = {event.data["what"] for event in folder.events() if event.kind == "missing"}
    assert missing - {"surroundings"} == {"ranks"}  # those may not be read in so short a run


def test_an_errand_that_is_cancelled_leaves_no_program_behind() -> None:
    """The recorder asks git about the folder; a run that ends at once does not wait for it."""
    code = (
        "import os, subprocess",
        "from rerail.platform import libc",
        "from rerail.platform.forked_task import ForkedTask",
        "def children(pid): return open(f'/proc/{pid}/task/{pid}/children').read().split()",
        "libc.become_subreaper()",
        "errand = ForkedTask.start('sleeps', lambda: subprocess.run(['sleep', '1000']), 60)",
        "while not children(errand.pid): pass",
        "errand.cancel()",
        "assert children(os.getpid()) == [], children(os.getpid())",
    )
    subprocess.run(python(*code), check=True, timeout=180, stdin=subprocess.DEVNULL)
