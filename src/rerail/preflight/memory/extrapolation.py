"""A quantity as a function of one number, from two or three measured points. Pure.

In: points. Out: a `Curve` that answers for any value and says how far it may be off. A straight
line where the middle point lies on it, a parabola through three points where it does not: memory
grows with the batch along a line, and with the length of a sequence faster than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_STRAIGHT_SHARE = 0.02  # of the rise: less than this off the line is noise
_NOISE_SHARE = 0.015  # of the value: what two measurements of one program differ by


@dataclass(frozen=True)
class Curve:
    constant: float
    slope: float
    bend: float = 0.0
    residual: float = 0.0  # the largest distance of a measured point, or the noise if that is more
    span: tuple[float, float] = (0.0, 0.0)

    def at(self, x: float) -> float:
        return self.constant + self.slope * x + self.bend * x * x

    def uncertainty_at(self, x: float) -> float:
        """The residual, which grows with the distance from what was measured."""
        low, high = self.span
        reach = max(1.0, (x - low) / (high - low) if high > low else 1.0)
        return self.residual * reach

    def largest_below(self, limit: float, start: int) -> int | None:
        """The largest whole number from 1 on at which the curve stays below the limit."""
        if self.at(1) > limit:
            return None
        low, high = 1, max(2, start)
        while self.at(high) <= limit:
            low, high = high, high * 2
            if high > 1 << 30:
                return None  # it does not depend on this number
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.at(middle) <= limit else (low, middle)
        return low


def fit(points: Sequence[tuple[float, float]], *, may_bend: bool = True) -> Curve:
    """At least one point; the points' first values differ."""
    ordered = sorted(points)
    span = (ordered[0][0], ordered[-1][0])
    if len(ordered) == 1:
        return Curve(ordered[0][1], 0.0, span=span)
    line = _line(ordered)
    off = max(abs(line.at(x) - y) for x, y in ordered)
    rise = abs(ordered[-1][1] - ordered[0][1])
    noise = _NOISE_SHARE * max(abs(y) for _, y in ordered)
    is_bent = off > max(noise, _STRAIGHT_SHARE * max(rise, 1.0))
    if may_bend and len(ordered) == 3 and is_bent:
        bent = _parabola(ordered)
        if bent.bend > 0:
            return Curve(bent.constant, bent.slope, bent.bend, max(off, noise), span)
    return Curve(line.constant, line.slope, 0.0, max(off, noise), span)


def _line(points: Sequence[tuple[float, float]]) -> Curve:
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    slope = above / below if below else 0.0
    return Curve(mean_y - slope * mean_x, slope)


def _parabola(points: Sequence[tuple[float, float]]) -> Curve:
    (x0, y0), (x1, y1), (x2, y2) = points
    first = (y1 - y0) / (x1 - x0)
    bend = ((y2 - y0) / (x2 - x0) - first) / (x2 - x1)
    slope = first - bend * (x0 + x1)
    return Curve(y0 - slope * x0 - bend * x0 * x0, slope, bend)
