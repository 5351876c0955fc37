"""How far is the training? Step, total, epoch and loss of one process, settled once for every view.

In: the black box of the process that speaks for the training, and what was printed. Out:
`TrainingProgress`, with the source of the step. `explain`, `show`, `watch`, `ui`, `runs` and the
last line of `run` read this. Promises: a number is of that process and below its total, or left
out: `docs/design/which-fact-wins.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.platform.patterns import linear
from rerail.platform.printed_progress import is_of_training
from rerail.records import BlackBox, PrintedPoint, ProcessRecord
from rerail.store.training_process import training_box

# Phases in which a progress bar counts something else than steps of the training.
NOT_TRAINING = ("validate", "test", "predict", "saving")
_OF_ONE_START = 2  # a program counts from zero or one, and may die before it prints the last
SEEN_LATE_SECONDS = 0.1  # the end of a process, whose parent has begun the next one
_PROGRAMS = ("main", "rank", "child")
_COUNT = linear(r"(?P<done>\d{1,15})\s*/\s*(?P<total>\d{1,15})")


@dataclass(frozen=True)
class TrainingProgress:
    step: int | None = None  # the number that its user knows
    total: int | None = None  # of what `step` counts
    epoch: float | None = None
    loss: float | None = None
    phase: str | None = None
    counted_by: Literal["agent", "output"] | None = None  # the step; None without one


def settle_progress(box: BlackBox | None, printed: PrintedPoint | None) -> TrainingProgress:
    """`printed` is of the same process, or None."""
    counted, bar_total = counted_by(box)
    is_training = box is None or not counted or box.phase not in NOT_TRAINING
    said = printed if is_training and _is_within_its_total(printed) else None
    step = counted
    source: Literal["agent", "output"] | None = "agent" if counted else None
    if said is not None and said.step is not None and _is_what_its_user_knows(said, counted, box):
        step, source = said.step, "output"
    total = said.total if said is not None and said.total else bar_total
    if not is_training or (total or 0) < (step or 0):
        total = None  # of an epoch or of an evaluation, and not of what is counted
    seen = (box.epoch, box.phase) if box is not None else (None, None)
    told = (printed.epoch, printed.phase) if printed is not None else (None, None)
    return TrainingProgress(
        step=step,
        total=total,
        epoch=seen[0] if told[0] is None else told[0],
        loss=_loss(box, printed),
        phase=seen[1] or told[1],
        counted_by=source,
    )


def progress_on_record(
    boxes: Sequence[BlackBox], processes: Sequence[ProcessRecord], printed: PrintedPoint | None
) -> TrainingProgress:
    """Of the training of a run, whichever process that is."""
    box, process = training_of(boxes, processes)
    return settle_progress(box, printed_by(process, printed))


def training_of(
    boxes: Sequence[BlackBox], processes: Sequence[ProcessRecord]
) -> tuple[BlackBox | None, ProcessRecord | None]:
    """Return the box that speaks for the training, and its process.

    The process alone is known of a program that failed before its first step, after others.
    """
    last = of_the_last_program(boxes, processes)
    box = training_box(last)
    shown = box if box is not None or len(last) == len(boxes) else next(iter(last), None)
    key = f"{shown.pid}-{shown.start_ticks}" if shown is not None else ""
    return box, next((process for process in processes if process.key == key), None)


def counted_by(box: BlackBox | None) -> tuple[int | None, int | None]:
    """Step and total as the process itself told them, by `rerail.step` or by the agent's hooks."""
    if box is None:
        return None, None
    bar = bar_of(box)
    if bar is not None and (box.progress_text or "").startswith("step "):
        return bar
    has_bar = bar is not None or not box.progress_text
    return box.optimizer_steps or None, box.progress_total if has_bar else None


def bar_of(box: BlackBox) -> tuple[int, int] | None:
    """Count and total of its progress bar, if that is one of the training."""
    text = box.progress_text or ""
    found = _COUNT.search(text)
    if found is None or not is_of_training(text[: found.start()]):
        return None
    return int(found["done"]), int(found["total"])


def _is_what_its_user_knows(said: PrintedPoint, counted: int | None, box: BlackBox | None) -> bool:
    """Whether the printed number is a better name for the step than the agent's count.

    It is after a resume, where gradients are accumulated, and by one where the program counts from
    zero. One that begins anew with each epoch names no step by itself.
    """
    assert said.step is not None
    if not counted:
        return True
    if said.total is not None and said.step <= said.total < counted:
        return False
    accumulates = box is not None and (box.backward_per_step or 1) > 1.05
    return accumulates or said.step > counted or counted - said.step <= _OF_ONE_START


def _is_within_its_total(said: PrintedPoint | None) -> bool:
    return said is not None and (not said.total or (said.step or 0) <= said.total)


def _loss(box: BlackBox | None, printed: PrintedPoint | None) -> float | None:
    """As printed, unless the process has said something since."""
    seen = box.loss if box is not None else None
    if printed is None or printed.loss is None:
        return seen
    if seen is None or box is None:
        return printed.loss
    is_older = printed.t_seconds < (box.last_progress_t_seconds or 0.0) - _LOOK_SECONDS
    return seen if is_older else printed.loss


_LOOK_SECONDS = 1.0  # between a step and the recorder's look at what it printed


def of_the_last_program(
    boxes: Sequence[BlackBox], processes: Sequence[ProcessRecord]
) -> list[BlackBox]:
    """Leave out what had ended before the program began that then failed.

    A script may start one training after the other; steps of the first are none of the second.
    """
    by_key = {process.key: process for process in processes}
    known = [(box, by_key.get(f"{box.pid}-{box.start_ticks}")) for box in boxes]
    failed = [
        process.started_t_seconds
        for _, process in known
        if process is not None
        and process.role in _PROGRAMS
        and (process.signal or process.exit_code)
    ]
    last = max(failed, default=0.0)
    return [
        box
        for box, process in known
        if process is None
        or process.ended_t_seconds is None
        or process.ended_t_seconds > last + SEEN_LATE_SECONDS
        or process.started_t_seconds >= last
    ]


def printed_by(process: ProcessRecord | None, printed: PrintedPoint | None) -> PrintedPoint | None:
    """`printed`, unless it stood there before this process had begun."""
    if process is None or printed is None:
        return printed
    return printed if printed.t_seconds >= process.started_t_seconds else None
