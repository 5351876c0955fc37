"""Deaths that a script outlives: told when a training failed in it, not when workers are tidied."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from run_driver import rerail_run

import rerail
from rerail.recorder.run.swallowed import LONG_SECONDS, swallowed_death
from rerail.records import BlackBox, ProcessRecord

TRAINS_AND_FAILS = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
raise ValueError("bad sample 4711")
"""


def process(pid: int, role: str = "main", **known: object) -> ProcessRecord:
    usual = {"started_t_seconds": 1.0, "ended_t_seconds": 2.0, "command": ["python", "t.py"]}
    told = {**usual, **known}
    return ProcessRecord(pid, 1, 1, role=role, name="python", **told)  # type: ignore[arg-type]


def box(**known: object) -> BlackBox:
    return BlackBox(1, 1, 1, "3.11.2", ["t.py"], 0.0, True, True, **known)  # type: ignore[arg-type]


TRAINED = box(optimizer_steps=7)
STUMBLED = box(exception_type="ImportError")


@pytest.mark.parametrize(
    ("died", "its_box", "is_told"),
    [
        (process(2, exit_code=1), TRAINED, True),
        (process(2, exit_code=1), STUMBLED, False),  # python -c "import x" || echo without x
        (process(2, exit_code=1, ended_t_seconds=1.1 + LONG_SECONDS), STUMBLED, True),
        (process(2, exit_code=1), None, False),
        (process(2, signal="SIGKILL"), TRAINED, True),
        (process(2, "rank", signal="SIGTERM"), TRAINED, True),
        (process(2, "child", signal="SIGKILL"), TRAINED, False),  # a framework's actor
        (process(2, "multiprocessing", signal="SIGTERM"), None, False),
        (process(2, "loader-worker", signal="SIGSEGV"), None, True),
        (process(2, exit_code=0), TRAINED, False),
    ],
)
def test_who_is_told(died: ProcessRecord, its_box: BlackBox | None, is_told: bool) -> None:
    assert (swallowed_death([died], lambda _: its_box) is not None) is is_told


def test_work_that_was_done_again_is_not_told() -> None:
    failed = process(2, exit_code=1)
    again = process(3, exit_code=0, started_t_seconds=2.5, ended_t_seconds=9.0)
    other = process(3, exit_code=0, started_t_seconds=2.5, command=["python", "other.py"])
    assert swallowed_death([failed, again], lambda _: TRAINED) is None
    assert swallowed_death([failed, other], lambda _: TRAINED) is not None


@pytest.mark.thorough
def test_a_training_that_failed_inside_a_script_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import subprocess

    (tmp_path / "train.py").write_text(TRAINS_AND_FAILS)
    program = shlex.join([sys.executable, str(tmp_path / "train.py")])
    script = f"{program}; echo went on"
    ran = subprocess.run(
        rerail_run(tmp_path, "sh", "-c", script), capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0 and "went on" in ran.stdout
    (run,) = rerail.runs(tmp_path)
    assert run.outcome is not None and "although the training" in run.outcome.summary
    assert run.explain().headline.startswith("ValueError: bad sample 4711 in train.py:8")
