"""What the output said of the training, in the form in which an agent would have said it.

In: the rows of progress.jsonl. Out: a `BlackBox` of no process (pid 0), for readers that show how
far a run is; None where nothing was said. For a run whose agents counted steps it is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.records import BlackBox, PrintedPoint, StepPoint


def box_of_output(points: Sequence[PrintedPoint]) -> BlackBox | None:
    if not points:
        return None
    last = points[-1]
    return BlackBox(
        pid=0,
        start_ticks=0,
        parent_pid=0,
        python_version="",
        argv=[],
        started_t_seconds=0.0,
        said_goodbye=False,
        handler_installed=False,
        optimizer_steps=_step(last),
        epoch=int(last.epoch) if last.epoch is not None else None,
        phase=last.phase,
        loss=last.loss,
        last_progress_t_seconds=last.t_seconds,
        progress_text=_count(last),
        progress_total=last.total,
        history=[StepPoint(_step(point), point.t_seconds, point.loss) for point in points],
    )


def has_counted(boxes: Sequence[BlackBox]) -> bool:
    """Whether an agent knows how far the training is: then the output does not say it better."""
    return any(box.optimizer_steps or box.batches for box in boxes)


def _step(point: PrintedPoint) -> int:
    """Of a run that was resumed its own number, else one that goes on over the epochs."""
    return max(point.step or 0, point.steps)


def _count(point: PrintedPoint) -> str | None:
    if point.step is not None:
        return f"{point.step}/{point.total}" if point.total else None
    return f"epoch {point.epoch:g}/{point.epochs}" if point.epoch and point.epochs else None
