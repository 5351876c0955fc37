"""What C++ says when a program that has failed in Python is torn down: an echo of that failure.

An exception ends the main thread while threads of a library still run. C++ destroys them, says
"terminate called without an active exception" and aborts. In: the lines and tracebacks of a log.
Out: where that begins, and what after it says no more than that. A crash of its own says otherwise:
"terminate called after throwing", a segmentation fault.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from rerail.evidence.text.lines import Line
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.patterns import linear

_BEGINS = linear(
    r"terminate called (?:without an active exception|recursively)|FATAL: exception not rethrown"
)
_ECHO = linear(
    r"terminate called (?:without|recursively)|exception not rethrown|\bAborted\b|\bSIGABRT\b"
    r"|[Aa]bort(?:ed)? \(core dumped\)|Aborted at \d"
)
_MOST_LINES_BETWEEN = 60


def teardown_begins(
    lines: Sequence[Line], tracebacks: Sequence[TracebackText], resumption: Resumption
) -> int | None:
    """The number of its first line; None where nothing was raised shortly before it."""
    ends: dict[int, list[int]] = defaultdict(list)  # of each file, in order as they were found
    for found in tracebacks:
        is_fatal = found.type and found.frames and not found.is_ignored
        if is_fatal and not resumption.after(found.last_line, is_fatal=True):
            ends[found.file].append(found.last_line)
    for line in lines if ends else ():
        if "terminate called" not in line.text and "not rethrown" not in line.text:
            continue
        at = bisect_left(ends[line.file], line.number)
        is_after = at > 0 and line.number - ends[line.file][at - 1] <= _MOST_LINES_BETWEEN
        if is_after and _BEGINS.search(line.text):
            return line.number
    return None


def is_of_teardown(number: int, text: str, begins: int | None) -> bool:
    return begins is not None and number >= begins and _ECHO.search(text) is not None
