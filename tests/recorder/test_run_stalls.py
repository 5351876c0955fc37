"""A run that makes no progress is noticed, written down, and ended if its user wants that."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from run_driver import PROGRAMS, Finished, is_alive, python, run_recorded

STUCK = [sys.executable, str(PROGRAMS / "run_stuck.py")]


def actions(done: Finished) -> list[str]:
    return [event.data["action"] for event in done.events("stall")]


@pytest.mark.thorough
def test_a_silent_run_is_recorded_with_stacks_and_goes_on(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, *STUCK, "10", options=["--stall", "2"])
    assert (done.status, done.stdout) == (0, b"begun\ndone\n")
    assert actions(done) == ["report"]
    (stall,) = done.folder.stalls()
    assert 2 <= stall.silent_seconds < 10 and stall.threshold_seconds == 2
    functions = {
        frame.function
        for threads in stall.stacks.values()
        for thread in threads
        for frame in thread.python
    }
    assert "waits_for_nothing" in functions
    assert b"no step and no output for " in done.stderr
    (over,) = done.events("stall-over")
    assert over.data["silent_seconds"] >= stall.silent_seconds


def test_what_it_says_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    """Not behind a progress bar, neither during the run nor after it; no line is left empty."""
    bar = "import sys, time; sys.stderr.write('\\r 50%|##'); sys.stderr.flush(); time.sleep(600)"
    options = ["--stall", "1", "--on-stall", "kill"]
    stderr = run_recorded(tmp_path, *python(bar), options=options).stderr.decode()
    assert stderr.startswith("\r 50%|##\nrerail: ")
    assert all("50%" not in line for line in stderr.splitlines() if "rerail: " in line)
    lines = bar.replace("##", "##\\n")
    stderr = run_recorded(tmp_path, *python(lines), options=options).stderr.decode()
    assert stderr.startswith("\r 50%|##\nrerail: ")


def test_a_line_left_open_elsewhere_is_not_ended_here(tmp_path: Path) -> None:
    opened = "import sys, time; print('epoch 1', end='', flush=True); time.sleep(600)"
    options = ["--stall", "1", "--on-stall", "kill"]
    done = run_recorded(tmp_path, *python(opened), options=options)
    assert done.stdout == b"epoch 1" and done.stderr.startswith(b"rerail: ")


@pytest.mark.thorough
def test_quiet_says_nothing_and_records_all_the_same(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, *STUCK, "3", options=["--stall", "1", "--quiet"])
    assert done.stderr == b"" and actions(done) == ["report"]


@pytest.mark.thorough
def test_a_run_that_prints_is_not_stuck(tmp_path: Path) -> None:
    code = "import time\nfor n in range(12): print(n, flush=True); time.sleep(0.2)"
    done = run_recorded(tmp_path, *python(code), options=["--stall", "1"])
    assert done.status == 0 and not actions(done)


def test_kill_ends_the_tree_and_the_outcome_is_a_hang(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, *STUCK, "60", options=["--stall", "1", "--on-stall", "kill"])
    assert done.status == -signal.SIGTERM
    outcome = done.folder.info().outcome
    assert outcome is not None
    assert (outcome.kind, outcome.signal) == ("hang", "SIGTERM")
    assert len(list(done.folder.stalls())) == 1, "stacks were taken before the kill"


@pytest.mark.thorough
def test_kill_is_not_declined(tmp_path: Path) -> None:
    """A tree that ignores SIGTERM, a child in another session: all of it ends."""
    done = run_recorded(
        tmp_path, *STUCK, "60", "stubborn", options=["--stall", "1", "--on-stall", "kill"]
    )
    assert done.status == -signal.SIGKILL
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "hang"
    processes = done.processes()
    assert len(processes) == 2
    assert not any(is_alive(process.pid) for process in processes)


def test_a_command_of_the_user_is_run(tmp_path: Path) -> None:
    note = tmp_path / "note"
    action = f"echo $RERAIL_RUN > {note}; kill -USR1 $RERAIL_ROOT_PID"
    done = run_recorded(
        tmp_path / "home", *STUCK, "60", options=["--stall", "1", "--on-stall", action]
    )
    assert done.status == -signal.SIGUSR1
    assert Path(note.read_text().strip()) == done.folder.path.absolute()
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "signal"
