"""One suite for every scheduler: runs are found, looked into, stopped, and counted honestly."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.errors import UsageError
from rerail.scheduling import NotEnoughMemory, RunningTask, Scheduler, Task, open_scheduler
from rerail.store import RunFolder, Store, liveness

PROCESSORS = len(os.sched_getaffinity(0))


def task(home: Path, *command: str, label: str = "one") -> Task:
    return Task(
        command=command,
        cwd=str(home.parent),
        home=str(home),
        environ={**os.environ, "GREETING": "hello"},
        label=label,
        settings={"changes": ["--a 1"]},
    )


def wait(running: RunningTask, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not running.is_over():
        assert time.monotonic() < deadline, "the task did not end"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One Ray cluster for all tests of this file: it takes seconds to start."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


# A cluster takes half a minute to start on a busy machine, and seconds for each task.
SLOW_RAY = pytest.param("ray", marks=pytest.mark.slow)


@pytest.fixture(params=["local", SLOW_RAY, pytest.param("copying", marks=pytest.mark.slow)])
def scheduler(request: pytest.FixtureRequest) -> Iterator[Scheduler]:
    if request.param == "local":
        opened: Scheduler = open_scheduler("local", 1)
    else:
        request.getfixturevalue("cluster")
        from rerail.scheduling.ray_cluster import RayScheduler

        opened = RayScheduler(1, is_shared=request.param == "ray")
    yield opened
    opened.close()


def test_a_task_becomes_a_run_in_the_store(scheduler: Scheduler, tmp_path: Path) -> None:
    home = tmp_path / "home"
    script = "import os; print(os.environ['GREETING'], os.getcwd())"
    running = scheduler.start(task(home, sys.executable, "-c", script))
    wait(running)
    path = running.folder()
    assert path is not None and running.problem() is None
    assert path.parent == home / "runs"
    info = RunFolder(path).info()
    assert info.outcome is not None and info.outcome.kind == "ok"
    assert info.settings["changes"] == ["--a 1"] and info.settings["label"] == "one"
    assert f"hello {tmp_path}" in (path / "output.log").read_text()
    assert [summary.info.id for summary in Store(home).summaries()] == [path.name]


def test_a_run_can_be_looked_into_while_it_is_under_way(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = "import sys; open(sys.argv[1]).read()"
    running = scheduler.start(task(tmp_path / "home", sys.executable, "-c", script, str(gate)))
    deadline = time.monotonic() + 180
    while not _has_box(running.folder()):
        assert time.monotonic() < deadline, "nothing of the live run was seen"
        assert not running.is_over()
        time.sleep(0.02)
    gate.write_text("on")
    wait(running)
    path = running.folder()
    assert path is not None and RunFolder(path).info().state == "ended"


def _has_box(path: Path | None) -> bool:
    return path is not None and bool(RunFolder(path).boxes())


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


def test_no_more_runs_at_once_than_jobs(scheduler: Scheduler, tmp_path: Path) -> None:
    scheduler.start(task(tmp_path / "home", "sleep", "100"))
    with pytest.raises(UsageError, match="under way already"):
        scheduler.start(task(tmp_path / "home", "true", label="two"))


@pytest.mark.parametrize("name", ["local", SLOW_RAY])
def test_more_jobs_than_processors_are_refused(name: str, request: pytest.FixtureRequest) -> None:
    if name == "ray":
        request.getfixturevalue("cluster")
    with pytest.raises(UsageError, match=r"100000 is more than the \d+ processors"):
        open_scheduler(name, 100_000)


def test_an_unknown_scheduler_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        open_scheduler("moon")
    assert "moon" in caught.value.message and "local, ray" in caught.value.help_text


@pytest.mark.skipif(PROCESSORS < 2, reason="one processor")
@pytest.mark.parametrize("name", ["local", SLOW_RAY])
def test_memory_that_is_not_there_is_refused_with_numbers(
    name: str, request: pytest.FixtureRequest
) -> None:
    if name == "ray":
        request.getfixturevalue("cluster")
    scheduler = open_scheduler(name, 2)
    scheduler.admit(2**20)
    with pytest.raises(NotEnoughMemory, match=r"2 runs at once need .* GiB"):
        scheduler.admit(2**60)
    scheduler.close()
