"""Which process is the training? `explain`, `watch`, `isolate` and `verify` all ask here.

In: the black boxes of a run's processes. Out: the one that speaks for the training, or None.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.records import BlackBox


def training_box(boxes: Sequence[BlackBox]) -> BlackBox | None:
    """Return the box that has done the most; of ranks that keep pace, the first rank's.

    Backward passes count as work, because an optimizer of the program's own is not counted: a
    helper that imported torch and took two steps is not the training. Batches count only where no
    process trains: workers of a DataLoader fetch more of them than the training has used.
    """
    trained = [box for box in boxes if _work(box)]
    if trained:
        most = max(trained, key=_work)
        leaders = [box for box in trained if _work(box) >= _work(most) - _work_of_one_step(most)]
    else:
        telling = [b for b in boxes if b.batches or b.progress_text or b.loss is not None]
        most_batches = max((box.batches for box in telling), default=0)
        leaders = [box for box in telling if box.batches >= most_batches - 1]
    return min(leaders, key=lambda box: (box.rank or 0, -box.batches, box.pid), default=None)


def _work(box: BlackBox) -> int:
    return box.optimizer_steps + box.backward_calls


def _work_of_one_step(box: BlackBox) -> float:
    """Ranks are read one after the other, so one that keeps pace may show a step less."""
    return 1 + max(1.0, box.backward_per_step or 1.0)
