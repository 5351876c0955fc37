"""Which process is the training: one answer for `explain`, `watch`, `isolate` and `verify`."""

from __future__ import annotations

from typing import Any

import pytest

from rerail.evidence.run.material import RecordedRun
from rerail.live import Snapshot
from rerail.live.progress import loss_of, progress_of
from rerail.records import BlackBox, RunInfo
from rerail.store import training_box


def box(pid: int, **changes: Any) -> BlackBox:
    fields: dict[str, Any] = {"start_ticks": 1, "parent_pid": 1, "python_version": "3.11"}
    fields |= {"argv": ["train.py"], "started_t_seconds": 0.0}
    fields |= {"said_goodbye": False, "handler_installed": True}
    return BlackBox(pid=pid, **{**fields, **changes})


HELPER = box(1, optimizer_steps=2, loss=9.0)
OWN_OPTIMIZER = box(2, backward_calls=500, batches=500, loss=0.5)
WORKER = box(3, batches=900)
RANK_0 = box(5, rank=0, optimizer_steps=40, backward_calls=320, backward_per_step=8.0, loss=0.5)
RANK_1 = box(4, rank=1, optimizer_steps=41, backward_calls=328, backward_per_step=8.0, loss=0.6)

CASES = {
    "a helper that took two steps": ([HELPER, OWN_OPTIMIZER], OWN_OPTIMIZER),
    "a worker that fetched more": ([WORKER, box(6, optimizer_steps=1, batches=1)], 6),
    "ranks that keep pace": ([RANK_1, RANK_0], RANK_0),
    "rank 0 was left behind": ([RANK_0, box(7, rank=1, optimizer_steps=400)], 7),
    "batches alone": ([box(8, batches=3), box(9, batches=70)], 9),
    "a loss alone": ([box(10), box(11, loss=0.5)], 11),
}


@pytest.mark.parametrize("name", CASES)
def test_the_views_of_a_run_speak_of_one_process(name: str) -> None:
    boxes, wanted = CASES[name]
    pid = wanted if isinstance(wanted, int) else wanted.pid
    chosen = training_box(boxes)
    assert chosen is not None and chosen.pid == pid
    info = RunInfo(1, "run", ["python"], "/", 1.0, "h", "0", 1, 2, False, "running")
    recorded = RecordedRun(info, boxes=boxes)
    assert recorded.training_box == chosen
    snapshot = Snapshot(info=info, now_seconds=1.0, boxes=boxes)
    progress, loss = progress_of(snapshot, []), loss_of(snapshot)
    assert progress is not None
    assert (progress.steps, progress.rank) == (chosen.optimizer_steps, chosen.rank)
    assert (loss.latest if loss else None) == chosen.loss


def test_no_process_is_the_training_where_none_did_anything() -> None:
    assert training_box([]) is None
    assert training_box([box(1)]) is None
