"""How far the training is, how fast it goes, when it will be done, and what its loss does.

In: the black boxes of the processes, and what the output said. Out: `Progress` and `Loss`.
The process that tells is the one that trains (`store.training_box`). Where a progress bar is
on the screen, its own count and estimate are taken, since it knows its total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from rerail.live.snapshot import Snapshot
from rerail.platform.patterns import linear
from rerail.platform.printed_progress import is_of_training
from rerail.records import BlackBox, StepPoint
from rerail.store import (
    TrainingProgress,
    bar_of,
    box_of_output,
    counted_by,
    has_counted,
    of_the_last_program,
    progress_on_record,
    training_box,
)

RATE_SECONDS = 60.0
_FLAT = 0.01  # a change of the mean loss below this share is none

# tqdm: " 42%|####  | 472/1122 [02:10<03:00,  3.61it/s]"; "?" where it does not know yet.
_BAR = linear(
    r"(?P<done>\d+)/(?P<total>\d+) \[(?:\d+:)?\d+:\d\d<(?P<left>(?:\d+:)?\d+:\d\d|\?)"
    r"(?:, +(?P<rate>[\d.]+)(?P<unit>[^\s/]*/s|s/[^\s,\]]+))?"
)


@dataclass(frozen=True)
class Progress:
    steps: int  # of the optimizer
    batches: int
    epoch: int | None
    phase: str | None
    done: int | None  # of the bar or total that is on the way
    total: int | None
    steps_per_second: float | None
    rate_text: str | None  # as a bar says it, where no step was seen
    eta_seconds: float | None  # to the end of that total
    last_progress_seconds_ago: float | None
    rank: int | None
    slowest_step: int | None  # over all ranks, where it differs
    counted_by: str = "agent"  # or "output": what the program printed


@dataclass(frozen=True)
class Loss:
    latest: float | None
    step: int | None
    trend: list[float]  # means over stretches of the last few hundred steps, oldest first
    direction: str | None  # falling, flat, rising
    first_nonfinite_step: int | None


def progress_of(snapshot: Snapshot, lines: Sequence[str]) -> Progress | None:
    """As `store.settle_progress` has it, with the pace. `lines` are the last ones of the output,
    as a terminal shows them."""
    settled = _settled(snapshot)
    said = box_of_output(snapshot.printed_progress)
    is_counted = has_counted(snapshot.boxes)
    boxes = [*snapshot.boxes] if is_counted or said is None else [*snapshot.boxes, said]
    found = _progress_of(
        of_the_last_program(boxes, snapshot.processes),
        snapshot.now_seconds,
        snapshot.info.state == "running",
        lines,
    )
    if found is None:
        return found
    steps = settled.step if settled.step is not None else found.steps
    epoch = found.epoch if settled.epoch is None else int(settled.epoch)
    source = settled.counted_by or ("agent" if is_counted or said is None else "output")
    return replace(found, steps=steps, epoch=epoch, counted_by=source)


def _settled(snapshot: Snapshot) -> TrainingProgress:
    printed = snapshot.printed_progress
    return progress_on_record(snapshot.boxes, snapshot.processes, printed[-1] if printed else None)


def _progress_of(
    boxes: Sequence[BlackBox], now: float, is_running: bool, lines: Sequence[str]
) -> Progress | None:
    box = training_box(boxes)
    bar = _last_bar(lines)
    if box is None and bar is None:
        return None
    done, total = (bar.done, bar.total) if bar else _count_of(box)
    rate = _rate(box.history) if box else None
    eta = _eta_seconds(box, bar, rate, done, total)
    last = box.last_progress_t_seconds if box else None
    ranks = [b.optimizer_steps for b in boxes if b.rank is not None and b.optimizer_steps]
    return Progress(
        steps=box.optimizer_steps if box else 0,
        batches=box.batches if box else 0,
        epoch=box.epoch if box else None,
        phase=box.phase if box else None,
        done=done,
        total=total,
        steps_per_second=rate,
        rate_text=bar.rate_text if bar else None,
        eta_seconds=round(eta, 1) if eta is not None and is_running else None,
        last_progress_seconds_ago=round(max(0.0, now - last), 1) if last is not None else None,
        rank=box.rank if box else None,
        slowest_step=min(ranks) if ranks and min(ranks) != max(ranks) else None,
    )


def loss_of(snapshot: Snapshot) -> Loss | None:
    """The last one as it was settled, and the losses before it as an agent saw them."""
    box = training_box(of_the_last_program(snapshot.boxes, snapshot.processes))
    found = _loss_of(box)
    if found is None:
        return _loss_of(box_of_output(snapshot.printed_progress))
    settled = _settled(snapshot).loss
    return found if settled is None else replace(found, latest=settled)


def _loss_of(box: BlackBox | None) -> Loss | None:
    points = [point for point in box.history if point.loss is not None] if box else []
    if box is None or (box.loss is None and not points):
        return None
    return Loss(
        latest=box.loss if box.loss is not None else points[-1].loss,
        step=points[-1].step if points else None,
        trend=_means([point.loss for point in points if point.loss is not None], 24),
        direction=_direction(points),
        first_nonfinite_step=box.first_nonfinite_step,
    )


@dataclass(frozen=True)
class _Bar:
    done: int
    total: int
    left_seconds: float | None
    rate_text: str | None


def _last_bar(printed: Sequence[str]) -> _Bar | None:
    for text in reversed(printed[-3:]):
        bars = [one for one in _BAR.finditer(text) if is_of_training(text[: one.start()])]
        if bars:
            found = bars[-1]  # of several on one line the last is the innermost
            left = None
            if found["left"] != "?":
                left = 0.0
                for part in found["left"].split(":"):
                    left = left * 60 + int(part)
            rate = f"{found['rate']} {found['unit']}" if found["rate"] else None
            return _Bar(int(found["done"]), int(found["total"]), left, rate)
    return None


def _eta_seconds(
    box: BlackBox | None,
    bar: _Bar | None,
    steps_per_second: float | None,
    done: int | None,
    total: int | None,
) -> float | None:
    """Time to the end of the total that is on the way."""
    said = bar.left_seconds if bar else None
    if not steps_per_second or total is None or (box is None and bar is not None):
        return said
    # A bar counts batches: with gradient accumulation several of them make a step.
    per_step = box.backward_per_step if box is not None and bar is not None else None
    ticks_per_second = steps_per_second * (per_step or 1.0)
    reckoned = max(0, total - (done or 0)) / ticks_per_second
    if said is None or said / 3 <= reckoned <= said * 3:
        return reckoned  # the bar's own estimate jumps with every second step
    return said  # it counts something else: epochs, files


def _count_of(box: BlackBox | None) -> tuple[int | None, int | None]:
    if box is None:
        return None, None
    return bar_of(box) or (None, counted_by(box)[1])


def _rate(history: Sequence[StepPoint]) -> float | None:
    """Steps per second over the last minute of steps."""
    if len(history) < 2:
        return None
    last = history[-1]
    first = next(p for p in history if p.t_seconds >= last.t_seconds - RATE_SECONDS)
    if first is last:
        first = history[-2]
    seconds, steps = last.t_seconds - first.t_seconds, last.step - first.step
    return round(steps / seconds, 4) if seconds > 0 and steps > 0 else None


def _direction(points: Sequence[StepPoint]) -> str | None:
    values = [p.loss for p in points if p.loss is not None and math.isfinite(p.loss)]
    if len(values) < 8:
        return None
    quarter = len(values) // 4
    before, after = fmean(values[:quarter]), fmean(values[-quarter:])
    change = (after - before) / max(abs(before), abs(after), 1e-12)
    if abs(change) < _FLAT:
        return "flat"
    return "falling" if change < 0 else "rising"


def _means(values: Sequence[float], most: int) -> list[float]:
    """The means of equal stretches; one that holds a NaN is NaN."""
    if len(values) <= most:
        return list(values)
    cuts = [round(i * len(values) / most) for i in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
