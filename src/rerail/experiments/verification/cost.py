"""What does a change cost? Traces before and after come in; throughput, memory and loss go out.

Only equal steps are compared. Whether a different loss is the change's doing depends on whether the
unchanged program repeats itself, so that is looked at too, and said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from rerail.experiments.verification.trace import Trace
from rerail.wording import bytes_in_words, percent, share_in_percent, short_number

# Medians of fewer steps say more about the machine than about the change.
_FEWEST_STEPS = 20
_LEVEL = 0.95  # of the interval
_WARM_UP_STEPS = 2
# Two runs of the same program on the same machine differ by about this much, which no number of
# steps of one run can tell: the interval is wider by it.
_USUAL_NOISE = 0.05


@dataclass(frozen=True)
class Throughput:
    before: float  # steps per second
    after: float
    steps: int  # compared
    lowest_change: float  # the interval of `change`, by the steps and by what runs differ anyway
    highest_change: float

    @property
    def change(self) -> float:
        return self.after / self.before - 1.0

    @property
    def can_be_told(self) -> bool:
        """Whether no change at all is ruled out."""
        return not self.lowest_change <= 0.0 <= self.highest_change


@dataclass(frozen=True)
class Memory:
    """Each page of the tree once, on both sides, or shared pages in every process on both."""

    before_bytes: int
    after_bytes: int
    is_added_up: bool = False
    died_of: str | None = None  # the lack that a run with the change died of: nothing was saved


@dataclass(frozen=True)
class Loss:
    first_step: int
    last_step: int
    compared: int
    largest_difference: float
    mean_difference: float  # after minus before
    differs_from_step: int | None  # None: equal to the last bit
    unchanged_differ_by: float | None  # two unchanged runs; None: there are no two to compare


@dataclass(frozen=True)
class Cost:
    throughput: Throughput | None = None
    memory: Memory | None = None
    loss: Loss | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, *, has_steps: bool = True) -> list[str]:
        if not has_steps:
            return [_memory_words(self.memory)]
        return [_throughput_words(self.throughput), _memory_words(self.memory), *_loss(self.loss)]


def compare(before: Sequence[Trace], after: Sequence[Trace], died_of: str | None = None) -> Cost:
    """`before`: runs without the change; `after`: with it, of which one may have `died_of` a lack
    of memory or of something alike.
    """
    memory = _memory(before, after)
    if memory is not None and died_of is not None:
        peak = max((trace.peak_bytes() or 0 for trace in after), default=0)
        memory = replace(memory, after_bytes=peak, died_of=died_of)
    return Cost(_throughput(before, after), memory, _losses(before, after))


def _throughput(before: Sequence[Trace], after: Sequence[Trace]) -> Throughput | None:
    old, new = _step_seconds(before), _step_seconds(after)
    shared = sorted(old.keys() & new.keys())
    if len(shared) < _FEWEST_STEPS:
        shared_old, shared_new = sorted(old), sorted(new)  # other steps, if no equal ones
    else:
        shared_old = shared_new = shared
    if min(len(shared_old), len(shared_new)) < _FEWEST_STEPS:
        return None
    times_old, times_new = [old[step] for step in shared_old], [new[step] for step in shared_new]
    seconds_old, seconds_new = median(times_old), median(times_new)
    quickest_old, slowest_old = _median_interval(times_old)
    quickest_new, slowest_new = _median_interval(times_new)
    if min(seconds_old, seconds_new, quickest_old, quickest_new) <= 0.0:
        return None
    return Throughput(
        round(1.0 / seconds_old, 4),
        round(1.0 / seconds_new, 4),
        min(len(times_old), len(times_new)),
        round((1.0 - _USUAL_NOISE) * quickest_old / slowest_new - 1.0, 4),
        round((1.0 + _USUAL_NOISE) * slowest_old / quickest_new - 1.0, 4),
    )


def _median_interval(times: Sequence[float]) -> tuple[float, float]:
    """Of the median, whatever the distribution: by how many of the times may lie below it.

    Both medians lie in theirs with the level asked, so each is outside with half of the rest.
    """
    ordered, count = sorted(times), len(times)
    tail, below = 0.25 * (1.0 - _LEVEL), 0
    chance = 0.5**count
    total = chance
    while total <= tail and below < count // 2:
        below += 1
        chance *= (count - below + 1) / below
        total += chance
    at = max(0, below - 1)
    return ordered[at], ordered[count - 1 - at]


def _step_seconds(traces: Sequence[Trace]) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for trace in traces:
        for step, seconds in trace.step_seconds().items():
            if step > _WARM_UP_STEPS:
                found.setdefault(step, []).append(seconds)
    return {step: median(seconds) for step, seconds in found.items()}


def _memory(before: Sequence[Trace], after: Sequence[Trace]) -> Memory | None:
    """Peaks up to the last step that both sides reached: later steps may need more.

    Only what was counted alike is compared: shared pages that an older recording counts in every
    process would look like memory that the change has saved.
    """
    new = [trace for trace in after if trace.rss]
    is_added_up = any(trace.is_added_up for trace in new)
    old = [trace for trace in before if trace.rss and trace.is_added_up == is_added_up]
    if not old or not new:
        return None
    last = min(
        max((max(t.done_t_seconds, default=0) for t in old), default=0),
        max((max(t.done_t_seconds, default=0) for t in new), default=0),
    )
    sizes = []
    for traces in (old, new):
        peaks = [trace.peak_bytes(_time_of(trace, last)) for trace in traces]
        sizes.append(max((peak for peak in peaks if peak), default=0))
    return Memory(sizes[0], sizes[1], is_added_up) if all(sizes) else None


def _time_of(trace: Trace, step: int) -> float | None:
    times = [t for each, t in trace.done_t_seconds.items() if each >= step]
    return min(times) if step and times else None


def _losses(before: Sequence[Trace], after: Sequence[Trace]) -> Loss | None:
    pairs = [(b, a) for b in before for a in after if b.losses.keys() & a.losses.keys()]
    if not pairs:
        return None
    old, new = max(pairs, key=lambda pair: len(pair[0].losses.keys() & pair[1].losses.keys()))
    steps = sorted(old.losses.keys() & new.losses.keys())
    differences = [new.losses[step] - old.losses[step] for step in steps]
    finite = [each for each in differences if math.isfinite(each)]
    first = next((s for s in steps if _differ(old.losses[s], new.losses[s])), None)
    return Loss(
        first_step=steps[0],
        last_step=steps[-1],
        compared=len(steps),
        largest_difference=max((abs(each) for each in finite), default=0.0),
        mean_difference=math.fsum(finite) / len(finite) if finite else 0.0,
        differs_from_step=first,
        unchanged_differ_by=_among_themselves(before),
    )


def _differ(one: float, other: float) -> bool:
    return one != other and not (math.isnan(one) and math.isnan(other))


def _among_themselves(traces: Sequence[Trace]) -> float | None:
    found = [
        abs(one.losses[step] - other.losses[step])
        for i, one in enumerate(traces)
        for other in traces[i + 1 :]
        for step in one.losses.keys() & other.losses.keys()
        if math.isfinite(one.losses[step] - other.losses[step])
    ]
    return max(found, default=None)


def _throughput_words(found: Throughput | None) -> str:
    if found is None:
        return f"Throughput: too few steps to tell (it takes {_FEWEST_STEPS} on both sides)."
    ratio = found.after / found.before
    how = share_in_percent(found.change, "+.0f") if 0.5 <= ratio <= 2.0 else f"{ratio:.2g} times"
    lowest = share_in_percent(found.lowest_change, "+.0f")
    between = f"between {lowest} and {share_in_percent(found.highest_change, '+.0f')}"
    if not found.can_be_told:
        how = "no change that can be told"
    before, after = short_number(found.before), short_number(found.after)
    return (
        f"Throughput: {before} steps/s before, {after} after"
        f" ({how}: {between} with {percent(_LEVEL)}; {found.steps} steps)."
    )


def _memory_words(found: Memory | None) -> str:
    if found is None:
        return "Memory: not recorded, or not counted alike before and after."
    before, after = bytes_in_words(found.before_bytes), bytes_in_words(found.after_bytes)
    if found.died_of is not None:
        return f"Memory: with the fix a run died of {found.died_of}, at a peak of {after}."
    if before == after:
        return f"Memory: peak {before} before and after."
    change = share_in_percent(found.after_bytes / found.before_bytes - 1.0, "+.1f")
    return f"Memory: peak {before} before, {after} after ({change})."


def _loss(found: Loss | None) -> list[str]:
    if found is None:
        return ["Loss: no equal steps to compare."]
    where = f"steps {found.first_step} to {found.last_step}"
    if found.differs_from_step is None:
        return [f"Loss: equal to the last bit over {where}."]
    text = (
        f"Loss: differs from step {found.differs_from_step} on, by up to"
        f" {found.largest_difference:.3g} over {where}"
    )
    among = found.unchanged_differ_by
    if among is None:
        return [f"{text}; whether by the change or by chance is not known (one unchanged run)."]
    if among == 0.0:
        return [f"{text}. Unchanged runs are equal: it is the change that changes results."]
    more = "no more than" if found.largest_difference <= among else "more than"
    return [f"{text}: {more} unchanged runs differ among themselves ({among:.3g})."]
