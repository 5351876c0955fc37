"""What would the memory be with another value of one argument? From two or three dry runs.

In: a command, a change as a person writes it ('--batch-size 64', 'dataloader-workers=4'), the plan
of the command as it is. Out: a `WhatIf`. A number larger than the present one is extrapolated from
dry runs at smaller values, since the value asked for may be just what does not fit. Anything else
is tried as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.changes import Change, DoesNotApply, apply_changes, parse_change
from rerail.errors import RerailError, UsageError
from rerail.preflight.memory.components import (
    batch_size,
    batches_under_way,
    loader_settings,
    own_of_workers,
)
from rerail.preflight.memory.extrapolation import Curve, fit
from rerail.preflight.memory.plan import ROOM_SHARE, MemoryPlan, plan_memory
from rerail.preflight.memory.stopping import Stop
from rerail.wording import bytes_in_words, listed

_PLAN_SHARE = 0.03
Planner = Callable[[Sequence[str], Mapping[str, str]], MemoryPlan]


@dataclass(frozen=True)
class WhatIf:
    change: str
    peak_bytes: int
    low_bytes: int
    high_bytes: int
    is_measured: bool
    points: tuple[tuple[float, int], ...] = ()
    largest_that_fits: int | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.change,
            "predicted_peak_bytes": self.peak_bytes,
            "low_bytes": self.low_bytes,
            "high_bytes": self.high_bytes,
            "is_measured": self.is_measured,
            "points": [{"value": x, "peak_bytes": y} for x, y in self.points],
            "largest_that_fits": self.largest_that_fits,
            "note": self.note,
        }

    def in_one_line(self) -> str:
        off = max(self.high_bytes - self.peak_bytes, 0)
        how = "measured"
        if not self.is_measured:
            at = listed([f"{x:g}" for x, _ in self.points])
            how = f"extrapolated from {at}"
        text = f"with {self.change}: {bytes_in_words(self.peak_bytes)} ± {bytes_in_words(off)}"
        text += f", {how}"
        if self.largest_that_fits is not None:
            text += f"; the largest value that fits here: {self.largest_that_fits}"
        return text


def what_if(
    text: str,
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    plan: MemoryPlan,
    *,
    steps: int | None = None,
    most_seconds: float = 120.0,
    stop: Stop | None = None,
) -> WhatIf:
    change = parse_change(text)

    def planned(words: Sequence[str], variables: Mapping[str, str]) -> MemoryPlan:
        return plan_memory(
            words,
            cwd,
            {**environ, **variables},
            steps=steps,
            most_seconds=most_seconds,
            stop=stop,
        )

    wanted = _number(change.value)
    present = _present_value(change, command, plan)
    if wanted is None or present is None or wanted <= present or len(change.values) != 1:
        return _measured(change, command, environ, planned)
    if _is_of_workers(change):
        # What a single worker keeps of its parent looks like its own: two share it.
        seen = present if present >= 2 else min(2, wanted)
        is_seen = seen == present
        base = plan if is_seen else _plan_with(_with_value(change, seen), command, environ, planned)
        settings = loader_settings(base.rehearsal)
        if settings is not None and settings.workers == seen:
            return _with_more_workers(change, settings.workers, wanted, base, plan.room_bytes)
    return _extrapolated(change, present, wanted, command, environ, plan, planned)


def _measured(
    change: Change, command: Sequence[str], environ: Mapping[str, str], planned: Planner
) -> WhatIf:
    plan = _plan_with(change, command, environ, planned)
    predicted = plan.prediction
    return WhatIf(
        change.text, predicted.peak_bytes, predicted.low_bytes, predicted.high_bytes, True
    )


def _with_more_workers(
    change: Change, measured: int, wanted: int, plan: MemoryPlan, room_bytes: int | None
) -> WhatIf:
    """Each more has as much of its own as those that were seen; what they keep, they share.

    Not along a line through several dry runs: what one run differs by from the next is more than a
    worker takes.
    """
    rehearsal, predicted = plan.rehearsal, plan.prediction
    each = (own_of_workers(rehearsal) + batches_under_way(rehearsal)) / measured
    more = int((wanted - measured) * each)
    largest = None
    if room_bytes is not None and each > 0:
        room = ROOM_SHARE * room_bytes - predicted.held_bytes
        largest = max(0, measured + int(room // each))
    return WhatIf(
        change.text,
        predicted.peak_bytes + more,
        predicted.low_bytes + more // 2,
        predicted.high_bytes + more + more // 2,
        wanted == measured,
        ((float(measured), predicted.peak_bytes),),
        largest,
    )


def _extrapolated(
    change: Change,
    present: int,
    wanted: int,
    command: Sequence[str],
    environ: Mapping[str, str],
    plan: MemoryPlan,
    planned: Planner,
) -> WhatIf:
    points: list[tuple[float, int]] = [(float(present), plan.peak_bytes)]
    for value in points_to_measure(present, wanted):
        try:
            other = _plan_with(_with_value(change, value), command, environ, planned)
        except UsageError:
            raise
        except RerailError:
            continue  # a value that the program does not take: the others will do
        points.append((float(value), other.peak_bytes))
    points.sort()
    curve = fit(points, may_bend=not _is_of_batch(change))  # a batch is samples side by side
    peak = curve.at(wanted)
    off = curve.uncertainty_at(wanted) + _PLAN_SHARE * peak
    return WhatIf(
        change.text,
        int(peak),
        int(peak - off),
        int(peak + off),
        False,
        tuple(points),
        _largest(curve, plan, present),
        "" if len(points) > 1 else "only one value could be measured",
    )


def _largest(curve: Curve, plan: MemoryPlan, present: int) -> int | None:
    if plan.room_bytes is None or curve.slope <= 0:
        return None
    room = ROOM_SHARE * plan.room_bytes + plan.prediction.mapped_bytes
    return curve.largest_below(room, present)


def points_to_measure(present: int, wanted: int) -> list[int]:
    """Values beside the present one, none above the one asked for."""
    smaller = sorted({present // 2, present // 4} - {0, present}, reverse=True)
    if len(smaller) == 2:
        return smaller
    larger = [value for value in (present + 1, present + 2) if value <= wanted]
    return (smaller + larger)[:2]


def _plan_with(
    change: Change, command: Sequence[str], environ: Mapping[str, str], planned: Planner
) -> MemoryPlan:
    try:
        changed = apply_changes(command, environ, [change])
    except DoesNotApply as error:
        raise UsageError(f"{change.text} changes nothing: {error}") from None
    plan = planned(changed.command, changed.variables)
    if plan.rehearsal.ending == "failed":
        summary = plan.rehearsal.outcome.summary if plan.rehearsal.outcome else "it failed"
        raise RerailError(f"with {change.text} the dry run failed: {summary}")
    return plan


def _with_value(change: Change, value: int) -> Change:
    name = change.text.partition("=")[0] if "=" in change.text else change.knob
    text = f"{name}={value}" if "=" in change.text else f"{name} {value}"
    return parse_change(text)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _present_value(change: Change, command: Sequence[str], plan: MemoryPlan) -> int | None:
    """What the command says now; for batch size and workers, else what the dry run saw."""
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name.lstrip("+~") != change.knob:
            continue
        value = value if equals else (command[at + 1] if at + 1 < len(command) else "")
        if value.isdigit():
            return int(value)
    settings = loader_settings(plan.rehearsal)
    if _is_of_batch(change):
        return batch_size(plan.rehearsal)
    if _is_of_workers(change) and settings is not None:
        return settings.workers
    return None


def _is_of_batch(change: Change) -> bool:
    name = change.knob.strip("-").replace("_", "-").lower()
    return name in ("batch-size", "bs", "batch", "per-device-train-batch-size")


def _is_of_workers(change: Change) -> bool:
    return change.knob.lower().endswith("workers")
