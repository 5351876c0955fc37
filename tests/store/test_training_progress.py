"""Step, total, epoch and loss of a run: of the process that did the training, or left out."""

from __future__ import annotations

from typing import Any

import pytest

from rerail.platform.printed_progress import read_line
from rerail.records import BlackBox, PrintedPoint, ProcessRecord
from rerail.store import bar_of, progress_on_record, settle_progress


def box(pid: int = 1, **changes: Any) -> BlackBox:
    fields: dict[str, Any] = {"start_ticks": 1, "parent_pid": 9, "python_version": "3.11"}
    fields |= {"argv": ["train.py"], "started_t_seconds": 0.0}
    fields |= {"said_goodbye": False, "handler_installed": True}
    return BlackBox(pid=pid, **{**fields, **changes})


def program(pid: int, started: float, ended: float, **changes: Any) -> ProcessRecord:
    fields: dict[str, Any] = {"parent_pid": 9, "role": "child", "command": ["python"]}
    fields |= {"start_ticks": 1, "name": "python", "started_t_seconds": started}
    return ProcessRecord(pid=pid, **{**fields, "ended_t_seconds": ended, **changes})


@pytest.mark.parametrize(
    ("counted", "printed", "step", "total"),
    [
        pytest.param(60, PrintedPoint(9.0, 120, 120), 120, 120, id="a resumed run"),
        pytest.param(875, PrintedPoint(9.0, 1, 125), 875, None, id="Lightning's bar"),
        pytest.param(40, PrintedPoint(9.0, 39, 100), 39, 100, id="counted from zero"),
        pytest.param(0, PrintedPoint(9.0, 7, 9), 7, 9, id="printed alone"),
        pytest.param(0, PrintedPoint(9.0, 12, 9), None, None, id="beyond its total"),
        pytest.param(24, PrintedPoint(9.0, 8, 8), 24, None, id="a full bar"),
    ],
)
def test_the_step_is_the_one_that_its_user_knows(
    counted: int, printed: PrintedPoint, step: int | None, total: int | None
) -> None:
    found = settle_progress(box(optimizer_steps=counted), printed)
    assert (found.step, found.total) == (step, total)
    assert found.counted_by == (None if step is None else "agent" if step == counted else "output")


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_second_training_of_a_script_has_no_step_of_the_first(is_seen: bool) -> None:
    boxes = [box(1, optimizer_steps=60, loss=0.4), box(2)]
    processes = [program(1, 1.0, 5.0, exit_code=0), program(2, 5.1, 7.0, exit_code=1)]
    said = PrintedPoint(4.0, 60, 60, loss=0.4) if is_seen else PrintedPoint(6.0, 3, 60)
    found = progress_on_record(boxes, processes, said)
    if is_seen:
        assert (found.step, found.total, found.loss) == (None, None, None)
    went_well = [processes[0], program(2, 5.1, 7.0, exit_code=0)]
    assert progress_on_record(boxes, went_well, None).step == 60


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        ("Training 472/1122", (472, 1122)),
        ("472/1122", (472, 1122)),
        ("Writing model shards 1/1", None),
        ("Loading checkpoint shards 2/3", None),
    ],
)
def test_what_loads_and_saves_draws_no_bar_of_the_training(text: str, bar: Any) -> None:
    drawn = box(progress_text=text, progress_total=3)
    assert bar_of(drawn) == bar
    assert (settle_progress(drawn, None).total is None) == (bar is None)


def test_a_date_is_no_bar() -> None:
    assert read_line("[11/18/26 14:02:11] INFO     restored the weights") is None
    assert read_line("[I 261119 21:22:57 cv:61] read 1500 rows") is None


def test_the_loss_is_the_newest() -> None:
    trained = box(optimizer_steps=40, loss=0.5, last_progress_t_seconds=30.0)
    assert settle_progress(trained, PrintedPoint(30.1, 40, loss=0.4)).loss == 0.4
    assert settle_progress(trained, PrintedPoint(12.0, 20, loss=0.9)).loss == 0.5
