"""The clocks of many machines as one, with what is not known about it.

In: who read whose stamp at which time of their own. Out: for every node the shift from its clock to
that of the job, as an interval. Pure. A stamp that was read has been written before, whatever the
clocks say: each such pair bounds the difference of two clocks from one side, and a chain of pairs
bounds that of nodes that never read each other. What contradicts itself is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rerail.jobs.records import Heard, Member

# Two quartz clocks drift apart by 100 parts in a million at most, each; NTP slews by 500.
DRIFT = 2e-4
# Rounding to a millisecond, on both sides.
_ROUNDING_SECONDS = 0.002
# Fewer common steps may agree by chance though the ranks do not wait for each other.
_FEWEST_STEPS = 4
_WALL_SECONDS = 60.0  # that machines without a time service are often off by


@dataclass(frozen=True)
class Shift:
    """Seconds to add to a node's time to have the job's: between `lowest` and `highest`."""

    lowest: float
    highest: float

    @property
    def seconds(self) -> float:
        return (self.lowest + self.highest) / 2

    @property
    def uncertainty(self) -> float:
        return (self.highest - self.lowest) / 2


@dataclass(frozen=True)
class JobClock:
    reference: str
    shifts: dict[str, Shift]
    uses_steps: bool = False

    def shift(self, node: str) -> Shift | None:
        return self.shifts.get(node)

    def at(self, node: str, t_seconds: float) -> float | None:
        """The job's time of a moment on that node's clock; None if its clock is not known."""
        shift = self.shifts.get(node)
        return None if shift is None else t_seconds + shift.seconds


def align(members: Sequence[Member]) -> JobClock:
    """By the clock of the first node, or of the one whose stamps most others have read."""
    if not members:
        return JobClock("", {})
    stamps = [heard for member in members for heard in member.heard]
    steps = list(_heard_by_steps(members))
    ends = {member.node: member.last_t or 0.0 for member in members}
    names = [member.node for member in members]
    best = JobClock(names[0], {names[0]: Shift(0.0, 0.0)})
    for reference in dict.fromkeys([names[0], _most_heard(names, stamps)]):
        for heard in ([*stamps, *steps], stamps):
            shifts = _shifts(reference, names, heard, ends)
            if shifts is not None and len(shifts) > len(best.shifts):
                best = JobClock(reference, shifts, bool(steps) and heard is not stamps)
    return best


def by_walls(members: Sequence[Member]) -> JobClock:
    """Where no stamp was exchanged: by what each machine takes for the time of day, to a minute."""
    first = min(members, key=lambda member: (member.node_rank or 0, member.node))
    shifts = {first.node: Shift(0.0, 0.0)}
    for member in members:
        shift = member.began_unix - first.began_unix
        shifts.setdefault(member.node, Shift(shift - _WALL_SECONDS, shift + _WALL_SECONDS))
    return JobClock(first.node, shifts)


def _most_heard(names: Sequence[str], heard: Iterable[Heard]) -> str:
    counts = dict.fromkeys(names, 0)
    for each in heard:
        if each.speaker in counts:
            counts[each.speaker] += 1
    return max(sorted(counts), key=lambda name: counts[name])


def _shifts(
    reference: str, names: Sequence[str], heard: Iterable[Heard], ends: Mapping[str, float]
) -> dict[str, Shift] | None:
    """None where the bounds contradict each other."""
    bounds = _tightest(heard, ends)
    towards = _shortest(reference, names, bounds)
    back = _shortest(reference, names, {(b, a): w for (a, b), w in bounds.items()})
    if towards is None or back is None:
        return None
    shifts = {}
    for name in names:
        lowest, highest = -back[name], towards[name]
        if lowest > highest:
            return None
        if math.isfinite(lowest) and math.isfinite(highest):
            shifts[name] = Shift(lowest, highest)
    return shifts


def _tightest(heard: Iterable[Heard], ends: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """By listener and speaker: shift(speaker) - shift(listener) is at most this."""
    bounds: dict[tuple[str, str], float] = defaultdict(lambda: math.inf)
    for each in heard:
        if each.listener == each.speaker or each.listener not in ends or each.speaker not in ends:
            continue
        since = max(0.0, ends[each.listener] - each.listener_t)
        bound = each.bound + _ROUNDING_SECONDS + DRIFT * since
        pair = (each.listener, each.speaker)
        bounds[pair] = min(bounds[pair], bound)
    return dict(bounds)


def _shortest(
    start: str, names: Sequence[str], bounds: Mapping[tuple[str, str], float]
) -> dict[str, float] | None:
    """Bellman and Ford; None where there is a circle that gets shorter each time."""
    distance = dict.fromkeys(names, math.inf)
    distance[start] = 0.0
    for _ in range(len(names)):
        has_changed = False
        for (from_node, to_node), bound in bounds.items():
            if distance[from_node] + bound < distance[to_node] - 1e-9:
                distance[to_node] = distance[from_node] + bound
                has_changed = True
        if not has_changed:
            return distance
        if distance[start] < 0.0:  # back where it began, and sooner: such a circle has no end
            return None
    return None


def _heard_by_steps(members: Sequence[Member]) -> Iterable[Heard]:
    """Ranks that reduce their gradients together hear of each other in every step.

    Nobody has done step k before all others came to it: all have done step k - 1 by then.
    """
    with_steps = [
        (member.node, dict(points)) for member in members for points in member.steps.values()
    ]
    pairs = [*((with_steps[0], other) for other in with_steps[1:]), *pairwise(with_steps[1:])]
    for (first, ours), (second, theirs) in pairs:
        if first == second or len(ours.keys() & theirs.keys()) < _FEWEST_STEPS:
            continue
        for step, t in ours.items():
            if step - 1 in theirs:
                yield Heard(first, second, t, theirs[step - 1])
        for step, t in theirs.items():
            if step - 1 in ours:
                yield Heard(second, first, t, ours[step - 1])
