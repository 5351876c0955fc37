"""Is a curve a leak, a plateau or a step? Pure arithmetic on points, nothing of runs.

In: (x, y) points in order of x, already without start-up. Out: a `Trend`, or None where nothing
worth a word happened. Slopes are Theil-Sen medians, so that a garbage collection or one spike does
not move them; they are written out here because rerail's own environment has no numpy or scipy
(tests compare with `scipy.stats.theilslopes`).

The curve is cut into at most twenty equal windows, each represented by its median. Where nearly all
of the rise falls into two neighbouring windows it is a step (a longer sequence, a new phase); where
it is spread and still going on in the last half it is a leak; where it has stopped it is a plateau.
docs/design/when-is-growing-memory-a-leak.md tells what was measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

Point = tuple[float, float]
Shape = Literal["leak", "plateau", "step"]

_WINDOWS = 20
_FEWEST_POINTS = 8
_STEP_SHARE = 0.6  # of the rise, within two neighbouring windows
_STILL_RISING_SHARE = 0.2  # of the rise, in the last half; a straight line has 0.5
_RISING_WINDOWS = 0.6
_MOST_SLOPE_POINTS = 200  # 19,900 pairs: about 5 ms


@dataclass(frozen=True)
class Trend:
    shape: Shape
    rise: float  # from the first windows to the last
    slope: float  # of y per x; over the rising part
    first: Point
    last: Point
    jump_at: float | None = None  # x of the middle of a step


def trend_of(points: Sequence[Point], least_rise: float) -> Trend | None:
    """The shape of the curve, or None when it rose by less than `least_rise` (or its own noise)."""
    if len(points) < _FEWEST_POINTS or points[-1][0] <= points[0][0]:
        return None
    windows = _window_medians(points)
    if len(windows) < 4:
        return None
    increments = [b[1] - a[1] for a, b in pairwise(windows)]
    rise = _end_level(windows) - _start_level(windows)
    noise = median(abs(i - median(increments)) for i in increments)
    if rise < least_rise or rise < 4 * noise:
        return _late_jump(points, windows, least_rise)
    pairs = [a + b for a, b in pairwise(increments)]
    highest = max(range(len(pairs)), key=pairs.__getitem__)
    if pairs[highest] >= _STEP_SHARE * rise:
        after = [p for p in points if p[0] >= windows[highest + 2][0]]
        later = trend_of(after, max(least_rise, 0.3 * rise)) if len(after) < len(points) else None
        if later is not None and later.shape == "leak":
            return later  # a leak that began with the phase that the step began
        if highest == 0:  # it had been rising when the curve begins: start-up that came to rest
            return Trend("plateau", rise, 0.0, windows[0], windows[-1])
        at = windows[highest + 1][0]
        return Trend("step", rise, 0.0, windows[0], windows[-1], jump_at=at)
    half = len(windows) // 2
    late_rise = _end_level(windows) - windows[half][1]
    rising = sum(i > 0 for i in increments[half:]) / len(increments[half:])
    slope = theil_sen(points)
    if late_rise >= _STILL_RISING_SHARE * rise and rising >= _RISING_WINDOWS and slope > 0:
        return Trend("leak", rise, slope, windows[0], windows[-1])
    return Trend("plateau", rise, 0.0, windows[0], windows[-1])


def theil_sen(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs of points (of an even choice, if many)."""
    if len(points) > _MOST_SLOPE_POINTS:
        stride = (len(points) - 1) / (_MOST_SLOPE_POINTS - 1)
        points = [points[round(i * stride)] for i in range(_MOST_SLOPE_POINTS)]
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0])
        for i, a in enumerate(points)
        for b in points[i + 1 :]
        if b[0] != a[0]
    ]
    return median(slopes) if slopes else 0.0


def value_at(points: Sequence[Point], x: float) -> float | None:
    """Linear between the points; None outside of them."""
    if not points or not points[0][0] <= x <= points[-1][0]:
        return None
    i = bisect_right(points, x, key=lambda p: p[0])
    if i == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[i - 1], points[i]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y0


def _window_medians(points: Sequence[Point]) -> list[Point]:
    first, last = points[0][0], points[-1][0]
    count = min(_WINDOWS, len(points) // 2)
    width = (last - first) / count
    groups: list[list[Point]] = [[] for _ in range(count)]
    for point in points:
        groups[min(int((point[0] - first) / width), count - 1)].append(point)
    return [(median(p[0] for p in g), median(p[1] for p in g)) for g in groups if g]


def _start_level(windows: Sequence[Point]) -> float:
    return median(y for _, y in windows[: max(1, len(windows) // 10)])


def _end_level(windows: Sequence[Point]) -> float:
    return median(y for _, y in windows[-max(1, len(windows) // 10) :])


def _late_jump(
    points: Sequence[Point], windows: Sequence[Point], least_rise: float
) -> Trend | None:
    """A rise so short before the end that the last window's median does not show it."""
    level = median(y for _, y in windows)
    tail = points[-max(2, len(points) // 20) :]
    peak = max(tail, key=lambda p: p[1])
    noise = median(abs(y - level) for _, y in points)
    if peak[1] - level < max(least_rise, 6 * noise):
        return None
    return Trend("step", peak[1] - level, 0.0, windows[0], peak, jump_at=peak[0])
