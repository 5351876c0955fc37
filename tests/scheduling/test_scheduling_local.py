"""Recorded runs through a scheduler: found, looked into, stopped, and counted honestly."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rerail.errors import UsageError
from rerail.scheduling import NotEnoughMemory, RunningTask, Scheduler, Task, open_scheduler
from rerail.store import RunFolder, liveness


def task(home: Path, *command: str, label: str = "one") -> Task:
    return Task(
        command=command,
        cwd=str(home.parent),
        home=str(home),
        environ=dict(os.environ),
        label=label,
        settings={"changes": ["--a 1"]},
    )


def wait(running: RunningTask, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not running.is_over():
        assert time.monotonic() < deadline, "the task did not end"
        time.sleep(0.02)


@pytest.fixture
def scheduler() -> Scheduler:
    return open_scheduler("local", 1)


def test_a_task_becomes_a_run_in_the_store(scheduler: Scheduler, tmp_path: Path) -> None:
    running = scheduler.start(task(tmp_path / "home", sys.executable, "-c", "print('hello')"))
    wait(running)
    path = running.folder()
    assert path is not None and running.problem() is None
    folder = RunFolder(path)
    assert folder.info().outcome is not None and folder.info().outcome.kind == "ok"
    assert folder.info().settings["changes"] == ["--a 1"]
    assert b"hello" in (path / "output.log").read_bytes()


def test_stopping_ends_everything_that_was_started(scheduler: Scheduler, tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    script = f"(trap '' TERM; echo up > {fifo}; exec sleep 100) & wait"
    running = scheduler.start(task(tmp_path / "home", "sh", "-c", script))
    assert fifo.read_text() == "up\n"
    running.stop()
    assert running.is_over()
    path = running.folder()
    assert path is not None
    for process in RunFolder(path).processes():
        assert not liveness.has_process(process.pid, process.start_ticks)


def test_a_command_that_is_not_there_is_told(scheduler: Scheduler, tmp_path: Path) -> None:
    running = scheduler.start(task(tmp_path / "home", "no-such-command-here"))
    wait(running)
    assert "no-such-command-here" in (running.problem() or "")


def test_closing_stops_what_runs(scheduler: Scheduler, tmp_path: Path) -> None:
    running = scheduler.start(task(tmp_path / "home", "sleep", "100"))
    scheduler.close()
    assert running.is_over()


def test_more_jobs_than_processors_are_refused() -> None:
    with pytest.raises(UsageError, match="processors"):
        open_scheduler("local", 100_000)
    with pytest.raises(UsageError):
        open_scheduler("moon")


def test_runs_at_once_have_processors_of_their_own(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    scheduler = open_scheduler("local", 2)
    show = "import os; print(sorted(os.sched_getaffinity(0)))"
    found = [
        scheduler.start(task(tmp_path / "home", sys.executable, "-c", show, label=label))
        for label in ("a", "b")
    ]
    for running in found:
        wait(running)
    said = [Path(str(running.folder()), "output.log").read_text() for running in found]
    assert said[0] != said[1]


def test_memory_that_is_not_there_is_refused_with_numbers() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    scheduler = open_scheduler("local", 2)
    scheduler.admit(2**20)
    with pytest.raises(NotEnoughMemory, match="GiB"):
        scheduler.admit(2**60)
