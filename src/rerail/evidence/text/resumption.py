"""Did training go on after something went wrong?

In: the points of progress and the lines that say it finished. Out: for a line number, whether what
stands there was survived. A message that normal progress follows was handled, a traceback that
ends the log was not. A bar that is redrawn once more while everything is torn down is no progress.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from rerail.evidence.text.lines import Line
from rerail.evidence.text.progress import ProgressPoint


class Resumption:
    def __init__(self, points: Sequence[ProgressPoint], finishes: Sequence[Line]) -> None:
        self._lines = [point.line.number for point in points]
        self._points = list(points)
        self._last_finish = max((line.number for line in finishes), default=-1)

    def after(self, line: int, *, is_fatal: bool) -> bool:
        """Whether the program went on after the line; `is_fatal` demands progress as proof."""
        at = bisect.bisect_right(self._lines, line)
        steps = self._advanced(at)
        finished = self._last_finish > line
        return steps >= 2 or (finished and (steps >= 1 or not is_fatal))

    def _advanced(self, at: int) -> int:
        """Distinct points from `at` on that are not just the last one before, said again."""
        before = {_key(point) for point in self._points[max(0, at - 3) : at]}
        seen: set[tuple[object, ...]] = set()
        for point in self._points[at:]:
            key = _key(point)
            if key in before or not point.is_finite or _is_zero_bar(point):
                continue
            seen.add(key)
            if len(seen) >= 2:
                break
        return len(seen)


def _key(point: ProgressPoint) -> tuple[object, ...]:
    """A bar that is full is one more round done, though its count is that of the last round."""
    is_full = point.step is not None and point.step == point.total
    return (point.step, point.epoch, point.loss, point.line.text if is_full else "")


def _is_zero_bar(point: ProgressPoint) -> bool:
    """A bar at its start shows that something was begun, not that it went on."""
    return point.step == 0 and point.loss is None
