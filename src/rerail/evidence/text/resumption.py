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

_LOOKED_BACK = 3  # points before a line, whose repetition is no progress
_ENOUGH = 2  # different points after a line that prove that it was survived

_Key = tuple[object, ...]


class Resumption:
    def __init__(
        self,
        points: Sequence[ProgressPoint],
        finishes: Sequence[Line],
        last_line: int = -1,
        begun_at: int = -1,
    ) -> None:
        self._begun_at = begun_at
        self._lines = [point.line.number for point in points]
        self._keys = [_key(point) for point in points]
        self._next = _next_keys(points, self._keys)
        self._last_finish = max((line.number for line in finishes), default=-1)
        self._ends_in_progress = bool(points) and points[-1].line.number >= last_line >= 0

    def after(self, line: int, *, is_fatal: bool, is_warning: bool = False) -> bool:
        """Whether the program went on after the line.

        `is_fatal` demands progress as proof; after what only warns, the first step is enough, or
        that training is announced, and after what nobody raised a step that the text ends with.
        """
        at = bisect.bisect_right(self._lines, line)
        steps = self._advanced(at)
        finished = self._last_finish > line
        if is_warning and self._begun_at > line:
            return True
        if steps >= 1 and (is_warning or (self._ends_in_progress and not is_fatal)):
            return True
        return steps >= _ENOUGH or (finished and (steps >= 1 or not is_fatal))

    @property
    def has_begun(self) -> bool:
        return bool(self._lines)

    def before(self, line: int) -> bool:
        """Whether training had done steps before the line."""
        at = bisect.bisect_left(self._lines, line)
        return len(set(self._keys[max(0, at - _LOOKED_BACK) : at])) >= _ENOUGH

    def _advanced(self, at: int) -> int:
        """Distinct points from `at` on that are not just the last one before, said again."""
        before = self._keys[max(0, at - _LOOKED_BACK) : at]
        return sum(key not in before for key in self._next[at])


def _next_keys(points: Sequence[ProgressPoint], keys: Sequence[_Key]) -> list[tuple[_Key, ...]]:
    """For each point, the first few different ones from it on: as many as can matter.

    Read once, from the end: asked for each of thousands of lines, a search would go through
    thousands of points that say the same.
    """
    following: list[tuple[_Key, ...]] = [()]
    for point, key in zip(reversed(points), reversed(keys), strict=True):
        known = following[-1]
        if point.is_finite and not _is_zero_bar(point):
            others = [other for other in known if other != key]
            known = (key, *others[: _LOOKED_BACK + _ENOUGH - 1])
        following.append(known)
    return following[::-1]


def _key(point: ProgressPoint) -> _Key:
    """A bar that is full is one more round done, though its count is that of the last round."""
    is_full = point.step is not None and point.step == point.total
    return (point.step, point.epoch, point.loss, point.line.text if is_full else "")


def _is_zero_bar(point: ProgressPoint) -> bool:
    """A bar at its start shows that something was begun, not that it went on."""
    return point.step == 0 and point.loss is None
