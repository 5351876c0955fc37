"""A program that waits for a worker that is gone: how the worker ended is the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from run_driver import PROGRAMS, run_recorded

from rerail.diagnosis import Diagnosis, explain_run
from rerail.recorder.stalls.stacks_by_debugger import find_program

PROGRAM = PROGRAMS / "hangs_without_its_worker.py"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(find_program("py-spy") is None, reason="the stack is read by py-spy"),
]


def explained(home: Path, way: str) -> Diagnosis:
    options = ["--stall", "2", "--on-stall", "kill"]
    done = run_recorded(home, sys.executable, str(PROGRAM), way, options=options)
    return explain_run(done.folder)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "cause", "said"),
    [
        ("killed", "killed-from-outside", "Somebody killed a multiprocessing child (pid "),
        ("crashes", "native-segfault", "SIGSEGV in hangs_without_its_worker.py:"),
        ("leaves", "worker-crashed", ") exited with code 3"),
        ("raises", "python-exception", "RuntimeError: shard 3 is missing"),
        ("thread", "python-exception", "RuntimeError: shard 3 is missing"),
    ],
)
def test_how_the_worker_ended_is_said_first(
    tmp_path: Path, way: str, cause: str, said: str
) -> None:
    found = explained(tmp_path, way)
    assert found.leading is not None and found.leading.id == cause, found.headline
    assert found.outcome.kind == "hang"
    assert said in found.headline
    assert "hangs_without_its_worker.py:" in found.headline
    whom = "thread prefetch" if way == "thread" else "that process"
    assert " waited " in found.headline and found.headline.endswith(f" s for {whom}.")
    lost = found.facts["hang"]["lost"]
    if way == "thread":
        assert (lost["thread"], lost["exception"]) == ("prefetch", "RuntimeError")
    else:
        assert (lost["signal"] or lost["exit_code"]) in ("SIGKILL", "SIGSEGV", 3, 1)
    if way in ("crashes", "raises", "thread"):
        assert found.facts["where"]["function"] == "ends"
