"""Step and loss of the whole run, thinned: a black box holds the last 256 steps alone.

In: the agents' black boxes. Out: rows of steps.jsonl (`records.StepRow`). Promises: a row a second
at first, then one for each hundredth of the run's age: about 1,000 rows in a month.
"""

from __future__ import annotations

from rerail.records import BlackBox, StepRow
from rerail.store import BoxReader, RunWriter, layout, training_box

LEAST_SECONDS = 1.0  # between two rows
SHARE_OF_AGE = 0.01


class StepHistory:
    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._boxes = BoxReader(writer.agent_dir, writer.t0_ns)
        self._due_at = 0.0
        self._last: StepRow | None = None

    def look(self) -> None:
        """Write down how far the training is, if it is time to."""
        now = self._writer.now()
        if now < self._due_at:
            return
        box = training_box(self._boxes.read())
        row = _row_of(box, self._last) if box is not None else None
        if row is not None:
            self._writer.append(layout.STEPS, row)
            self._last = row
            self._due_at = next_row_at(now)


def next_row_at(now: float) -> float:
    return now + max(LEAST_SECONDS, SHARE_OF_AGE * now)


def _row_of(box: BlackBox, last: StepRow | None) -> StepRow | None:
    """The newest step, with its loss or the newest that is known since the last row."""
    before = last.step if last is not None and last.pid == box.pid else 0
    new = [point for point in box.history if point.step > before]
    if not new:
        return None
    loss = next((point.loss for point in reversed(new) if point.loss is not None), None)
    return StepRow(new[-1].step, new[-1].t_seconds, loss, box.pid)
