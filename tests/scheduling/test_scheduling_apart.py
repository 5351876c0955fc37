"""What is particular to one scheduler: processors on this machine, and Ray that is not there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rerail.scheduling import Task, open_scheduler
from rerail.scheduling.ray_cluster import RayUnavailable


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_runs_at_once_have_processors_of_their_own(tmp_path: Path) -> None:
    scheduler = open_scheduler("local", 2)
    show = "import os; print(sorted(os.sched_getaffinity(0)))"
    found = [
        scheduler.start(
            Task(
                command=(sys.executable, "-c", show),
                cwd=str(tmp_path),
                home=str(tmp_path / "home"),
                environ=dict(os.environ),
                label=label,
            )
        )
        for label in ("a", "b")
    ]
    deadline = time.monotonic() + 60.0
    while not all(running.is_over() for running in found):
        assert time.monotonic() < deadline, "the tasks did not end"
        time.sleep(0.02)
    said = [Path(str(running.folder()), "output.log").read_text() for running in found]
    assert not set(eval(said[0])) & set(eval(said[1]))


def test_ray_that_is_not_installed_gives_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as an interpreter without it has it
    with pytest.raises(RayUnavailable) as caught:
        open_scheduler("ray")
    assert "not installed" in caught.value.message
    assert caught.value.help_text == "pip install 'rerail[ray]'"
