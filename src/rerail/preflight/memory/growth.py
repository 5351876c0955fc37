"""Whether memory grew at every step of the dry run: a leak shows in 15 steps, the limit does not.

In: a rehearsal. Out: what each further step takes, or None. An allocator settles: after a few steps
it takes no more. What a program keeps goes on at one pace, up and down by the size of a buffer.
Promises: None unless the last step left most, and the later half grew at the pace of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

from rerail.preflight.memory.rehearsal import Rehearsal, Report

FEWEST_STEPS = 10  # behind those in which everything is made
_UNSETTLED_STEPS = 3
_LEAST_BYTES_PER_STEP = 256 << 10
_LATER_SHARE = 0.6  # of the pace of all steps, in the later half
_MOST_SHARE = 1.8


def growth_bytes_per_step(rehearsal: Rehearsal) -> int | None:
    """Return what each step took more than the one before, of the process that grew most."""
    found = [_growth(_sizes_after_steps(report)) for report in rehearsal.reports]
    return max((each for each in found if each is not None), default=None)


def _sizes_after_steps(report: Report) -> list[int]:
    return [int(mark.get("RssAnon", 0)) for mark in report.marks if mark["mark"] == "step done"]


def _growth(sizes: Sequence[int]) -> int | None:
    settled = sizes[_UNSETTLED_STEPS:]
    if len(settled) < FEWEST_STEPS or settled[-1] < max(settled):
        return None
    pace, later = _slope(settled), _slope(settled[len(settled) // 2 :])
    is_steady = _LATER_SHARE * pace <= later <= _MOST_SHARE * pace
    return int(pace) if pace >= _LEAST_BYTES_PER_STEP and is_steady else None


def _slope(sizes: Sequence[int]) -> float:
    """The median over all pairs of steps, which one large buffer does not move."""
    pairs = combinations(enumerate(sizes), 2)
    return median((after - before) / (b - a) for (a, before), (b, after) in pairs)
