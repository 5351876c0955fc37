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
from statistics import fmean, median

from rerail.wording import share_in_percent

BLOCK_STEPS = 5  # between two looks that are kept
WARM_STEPS = 10  # compiling, filling caches
KEPT_BLOCKS = 40
LEAST_STEPS = 35  # that it has to be slow for
NAMED_EXCESS = 0.12  # of the others' own time
BURST_STEPS = 12  # for which a neighbour may hold a rank up
STEADY_EXCESS = 0.1  # in the other blocks
LEAST_REST = 3  # of those
GAP_NOISE = 1.5  # by how much noise one block may fall short
CAUGHT_EXCESS = 0.06
CAUGHT_STEPS = 35
ALLOWED_EXCESS = 0.1  # of a block; what is above it adds up, what is below it is taken away again
MOST_EXCESS = 0.3  # that one block counts for: a neighbour may hold a rank up for a moment
LEAST_SUM = 0.5
CERTAIN = 12.0  # minus the logarithm of the chance that noise alone adds up to as much
OUTSIDE = 3.5  # how many standard deviations of the others
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
            f"rank {self.rank} (pid {self.pid}) is {share_in_percent(self.excess)} slower than the"
            f" others since step {self.since_step:,}: {_ms(self.own_seconds)} a step of its own"
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
    """Adds up how much slower each rank is than the others, block by block; names one at a time."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=KEPT_BLOCKS + 1)
        self._excesses: deque[Mapping[int, float]] = deque(maxlen=KEPT_BLOCKS)
        self._lengths: deque[float] = deque(maxlen=KEPT_BLOCKS)  # in times BLOCK_STEPS
        self._sums: dict[int, float] = {}
        self._blocks: dict[int, int] = {}  # since the sum was last nothing
        self.named: Slow | None = None

    def look(self, samples: Sequence[Sample]) -> Slow | Caught | None:
        now = {sample.rank: sample for sample in samples}
        if len(now) < 2 or len(now) != len(samples):
            return None
        last = self._looks[-1] if self._looks else None
        if last is None or last.keys() != now.keys() or _went_back(last, now):
            self._forget()
            if min(sample.steps for sample in samples) >= WARM_STEPS:
                self._looks.append(now)
            return None
        if min(now[rank].steps - last[rank].steps for rank in now) < BLOCK_STEPS:
            return None
        self._looks.append(now)
        self._add_up(excesses(paces(last, now)), _steps(last, now) / BLOCK_STEPS)
        return self._judge() if self.named is None else self._caught()

    def _forget(self) -> None:
        self._looks.clear()
        self._excesses.clear()
        self._lengths.clear()
        self._sums.clear()
        self._blocks.clear()

    def _add_up(self, block: Mapping[int, float], length: float) -> None:
        self._excesses.append(block)
        self._lengths.append(length)
        for rank, excess in block.items():
            counted = max(-MOST_EXCESS, min(excess, MOST_EXCESS)) - ALLOWED_EXCESS
            total = self._sums.get(rank, 0.0) + counted * length
            self._sums[rank] = max(0.0, total)
            self._blocks[rank] = self._blocks.get(rank, 0) + 1 if total > 0 else 0

    def _judge(self) -> Slow | None:
        rank = max(self._sums, key=lambda each: self._sums[each])
        if self._sums[rank] < LEAST_SUM:
            return None
        # A sum that noise moves up and down reaches this one by chance once in e^CERTAIN times.
        certain = CERTAIN + math.log(len(self._sums))
        noise, length = noise_of(self._excesses), median(self._lengths)
        if self._sums[rank] < certain * noise**2 * length / (2 * ALLOWED_EXCESS):
            return None
        blocks = min(self._blocks[rank], KEPT_BLOCKS)
        window = list(self._looks)[-1 - blocks :]
        if _steps(window[0], window[-1]) < LEAST_STEPS or not self._is_steady(
            rank, blocks, noise, length
        ):
            return None
        self.named = judge_window(window, rank)
        return self.named

    def _is_steady(self, rank: int, blocks: int, noise: float, length: float) -> bool:
        """Slow enough without its slowest blocks too: a neighbour may have held it up in those.
        And no gap between: only the block in which it began may be like the others'."""
        excesses = sorted(each[rank] for each in list(self._excesses)[-blocks:])
        rest = excesses[: len(excesses) - math.ceil(BURST_STEPS / BLOCK_STEPS / length)]
        if len(rest) < LEAST_REST or fmean(rest) < STEADY_EXCESS:
            return False
        return excesses[1] >= NAMED_EXCESS - GAP_NOISE * noise

    def _caught(self) -> Caught | None:
        assert self.named is not None
        rank, looks = self.named.rank, list(self._looks)
        if rank not in looks[-1]:
            self.named = None
            return None
        window = next((each for each in reversed(looks) if _lasts(each, looks[-1])), None)
        if window is None or excess_of(rank, paces(window, looks[-1])) >= CAUGHT_EXCESS:
            return None
        self.named = None
        self._sums.clear()
        self._blocks.clear()
        return Caught(rank, looks[-1][rank].pid, looks[-1][rank].steps)


def _lasts(first: Look, last: Look) -> bool:
    return _steps(first, last) >= CAUGHT_STEPS


def judge_window(window: Sequence[Look], rank: int) -> Slow | None:
    """Over all of it: by enough to matter, and outside the others' spread."""
    whole = paces(window[0], window[-1])
    others = [pace.own for each, pace in whole.items() if each != rank]
    typical, own, step = median(others), whole[rank].own, whole[rank].step
    excess = excess_of(rank, whole)
    if excess < NAMED_EXCESS or own - typical < max(LEAST_OF_STEP * step, LEAST_SECONDS):
        return None
    if own - typical < OUTSIDE * _spread(others, typical):
        return None
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


def noise_of(blocks: Sequence[Mapping[int, float]]) -> float:
    """The standard deviation of a block's excess, from one block to the next: of a rank that has
    become slow they differ once, and of one that a neighbour held up twice."""
    moves = [abs(b[rank] - a[rank]) for a, b in pairwise(blocks) for rank in b if rank in a]
    return 1.4826 * median(moves) / math.sqrt(2) if moves else math.inf


def excesses(pace: Mapping[int, Pace]) -> dict[int, float]:
    """`excess_of` of every rank, with one sorting for all."""
    order = sorted(pace, key=lambda rank: pace[rank].own)
    own = [pace[rank].own for rank in order]
    others = len(own) - 1
    low, high = (others - 1) // 2, others // 2  # the middle of the others, counted without it
    found = {}
    for at, rank in enumerate(order):
        typical = (own[low + (low >= at)] + own[high + (high >= at)]) / 2
        found[rank] = own[at] / typical - 1.0 if typical > 0 else 0.0
    return found


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
