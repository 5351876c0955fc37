"""Is one rank slower than the others, by more than chance, and in which part of its step? Pure.

In: now and then, what every rank has counted so far. Out: `Slow` when one is to be named, `Caught`
when it keeps step again. docs/design/who-is-slow.md has the reasons and what was measured.

Ranks that wait for each other all have the same time per step. The slow one is the one that waits
least: what it needs for itself, `own`, is the time per step without the time in collectives and
without the time that it stood in line for a processor, which a busy machine takes from anybody.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, stdev

BLOCK_STEPS = 5  # between two looks that are kept
WARM_STEPS = 10  # compiling, filling caches
WINDOWS = (35, 50, 100, 200)  # steps; a noisy job needs the longer ones
LEAST_BLOCKS = 5
NAMED_EXCESS = 0.12  # of the others' own time
STEADY_EXCESS = 0.08  # in three quarters of the time
CAUGHT_EXCESS = 0.06
SURE = 4.0  # how many standard errors of the excess
OUTSIDE = 3.5  # how many standard deviations of the others
MEDIAN_COSTS = 1.2533  # its standard error is so much larger than that of the mean
LEAST_OF_STEP = 0.04  # an excess that is less of the whole step is nobody's loss
LEAST_SECONDS = 0.0005


@dataclass(frozen=True)
class Sample:
    """All in nanoseconds since the rank began, but `steps`; `at_ns` is when it ended its last."""

    rank: int
    pid: int
    steps: int
    at_ns: int
    waited_ns: int  # in collectives
    data_ns: int  # waiting for batches
    queued_ns: int = 0  # in line for a processor


Look = Mapping[int, Sample]  # by rank


@dataclass(frozen=True)
class Pace:
    """Seconds per step of one rank, between two looks."""

    step: float
    own: float
    data: float
    waited: float


@dataclass(frozen=True)
class Slow:
    rank: int
    pid: int
    part: str  # data, compute
    excess: float  # 0.2: it needs a fifth more than the others
    own_seconds: float
    others_seconds: float
    step_seconds: float
    since_step: int
    at_step: int

    @property
    def text(self) -> str:
        what = "waiting for data" if self.part == "data" else "computing"
        return (
            f"rank {self.rank} (pid {self.pid}) is {100 * self.excess:.0f} % slower than the others"
            f" since step {self.since_step:,}: {_ms(self.own_seconds)} a step of its own"
            f" to their {_ms(self.others_seconds)}, {what}; they wait for it"
        )


@dataclass(frozen=True)
class Caught:
    rank: int
    pid: int
    at_step: int

    @property
    def text(self) -> str:
        return f"rank {self.rank} (pid {self.pid}) keeps step again at step {self.at_step:,}"


class Stragglers:
    """Keeps as many looks as the longest window needs; one rank is named at a time."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=WINDOWS[-1] // BLOCK_STEPS + 1)
        self.named: Slow | None = None

    def look(self, samples: Sequence[Sample]) -> Slow | Caught | None:
        now = {sample.rank: sample for sample in samples}
        if len(now) < 2 or len(now) != len(samples):
            return None
        last = self._looks[-1] if self._looks else None
        if last is None or last.keys() != now.keys() or _went_back(last, now):
            self._looks.clear()
            if min(sample.steps for sample in samples) >= WARM_STEPS:
                self._looks.append(now)
            return None
        if min(now[rank].steps - last[rank].steps for rank in now) < BLOCK_STEPS:
            return None
        self._looks.append(now)
        return self._judge()

    def _judge(self) -> Slow | Caught | None:
        for steps in WINDOWS:
            window = self._window(steps)
            if window is None:
                return None
            if self.named is not None:
                return self._caught(window)
            slow = judge_window(window)
            if slow is not None:
                self.named = slow
                return slow
        return None

    def _window(self, steps: int) -> list[Look] | None:
        """The last looks, as few as hold so many steps and blocks."""
        looks = list(self._looks)
        for first in range(len(looks) - 1 - LEAST_BLOCKS, -1, -1):
            if _steps(looks[first], looks[-1]) >= steps:
                return looks[first:]
        return None

    def _caught(self, window: Sequence[Look]) -> Caught | None:
        assert self.named is not None
        rank = self.named.rank
        if rank not in window[0]:
            self.named = None
            return None
        if excess_of(rank, paces(window[0], window[-1])) >= CAUGHT_EXCESS:
            return None
        self.named = None
        return Caught(rank, window[-1][rank].pid, window[-1][rank].steps)


def judge_window(window: Sequence[Look]) -> Slow | None:
    """Over all of it: outside the others' spread, and in nearly every part of it."""
    whole = paces(window[0], window[-1])
    rank = max(whole, key=lambda each: whole[each].own)
    others = [pace.own for each, pace in whole.items() if each != rank]
    typical, own, step = median(others), whole[rank].own, whole[rank].step
    excess = excess_of(rank, whole)
    if excess < NAMED_EXCESS or own - typical < max(LEAST_OF_STEP * step, LEAST_SECONDS):
        return None
    if own - typical < OUTSIDE * _spread(others, typical):
        return None
    blocks = [paces(a, b) for a, b in pairwise(window)]
    excesses = sorted(excess_of(rank, block) for block in blocks)
    middle = median(excesses)
    # Of so few either may be small by luck; the highest and the lowest may be a neighbour's doing.
    spread = max(_spread(excesses, middle), stdev(excesses[1:-1]))
    error = spread * MEDIAN_COSTS / math.sqrt(len(excesses))
    if middle < NAMED_EXCESS or middle - SURE * error < CAUGHT_EXCESS:
        return None
    if excesses[len(excesses) // 4] < STEADY_EXCESS or excesses[len(excesses) // 8] < 0.0:
        return None  # it comes and goes
    data = whole[rank].data - median(p.data for each, p in whole.items() if each != rank)
    return Slow(
        rank=rank,
        pid=window[-1][rank].pid,
        part="data" if data > (own - typical) / 2 else "compute",
        excess=excess,
        own_seconds=own,
        others_seconds=typical,
        step_seconds=step,
        since_step=window[0][rank].steps,
        at_step=window[-1][rank].steps,
    )


def _spread(values: Sequence[float], middle: float) -> float:
    """A standard deviation that a few who are far off do not change."""
    return 1.4826 * median(abs(value - middle) for value in values)


def excess_of(rank: int, pace: Mapping[int, Pace]) -> float:
    typical = median(each.own for other, each in pace.items() if other != rank)
    return pace[rank].own / typical - 1.0 if typical > 0 else 0.0


def paces(first: Look, last: Look) -> dict[int, Pace]:
    return {rank: _pace(first[rank], last[rank]) for rank in last}


def _pace(a: Sample, b: Sample) -> Pace:
    steps = max(1, b.steps - a.steps)
    step = max(0, b.at_ns - a.at_ns) / steps / 1e9
    waited = max(0, b.waited_ns - a.waited_ns) / steps / 1e9
    queued = max(0, b.queued_ns - a.queued_ns) / steps / 1e9
    data = max(0, b.data_ns - a.data_ns) / steps / 1e9
    # Who waits may stand in line as well, at the end of a wait: never below a hundredth of a step.
    return Pace(step, max(step - waited - queued, 0.01 * step), data, waited)


def _steps(a: Look, b: Look) -> int:
    return min(b[rank].steps - a[rank].steps for rank in b)


def _went_back(a: Look, b: Look) -> bool:
    """Another process has this rank now, or its counters began anew."""
    return any(a[rank].pid != b[rank].pid or a[rank].steps > b[rank].steps for rank in b)


def _ms(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
