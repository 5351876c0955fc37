"""What is particular to one scheduler: processors on this machine, and Ray that is not there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from rerail.scheduling import RunningTask, Task, open_scheduler
from rerail.scheduling.ray_cluster import RayUnavailable


def task(folder: Path, script: str, label: str) -> Task:
    return Task(
        command=(sys.executable, "-c", script),
        cwd=str(folder),
        home=str(folder / "home"),
        environ=dict(os.environ),
        label=label,
    )


def wait_for_all(tasks: list[RunningTask]) -> None:
    deadline = time.monotonic() + 180
    while not all(running.is_over() for running in tasks):
        assert time.monotonic() < deadline, "the tasks did not end"
        time.sleep(0.02)


def output_of(running: RunningTask) -> str:
    return Path(str(running.folder()), "output.log").read_text()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_runs_at_once_have_processors_of_their_own(tmp_path: Path) -> None:
    scheduler = open_scheduler("local", 2)
    show = "import os; print(sorted(os.sched_getaffinity(0)))"
    found = [scheduler.start(task(tmp_path, show, label)) for label in ("a", "b")]
    wait_for_all(found)
    scheduler.close()
    said = [output_of(running) for running in found]
    assert not set(eval(said[0])) & set(eval(said[1]))


def test_a_recorder_that_waits_may_die_and_ends_with_its_scheduler(tmp_path: Path) -> None:
    others = set(psutil.Process().children())
    scheduler = open_scheduler("local", 1)
    for label in ("a", "b", "c"):
        running = scheduler.start(task(tmp_path, f"print({label!r})", label))
        wait_for_all([running])
        assert output_of(running) == f"{label}\n"
        (waiting,) = set(psutil.Process().children()) - others
        if label == "b":
            waiting.kill()
            waiting.wait(10.0)
    scheduler.close()
    assert not set(psutil.Process().children()) - others


def test_ray_that_is_not_installed_gives_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as an interpreter without it has it
    with pytest.raises(RayUnavailable) as caught:
        open_scheduler("ray")
    assert "not installed" in caught.value.message
    assert caught.value.help_text == "pip install 'rerail[ray]'"
