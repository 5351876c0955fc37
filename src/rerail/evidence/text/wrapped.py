"""Puts lines together again that a console broke at its width.

In: clean lines. Out: lines; what was broken keeps the number of its first line. A console of width
w shows several lines of exactly w characters that the next line goes on with, and none that is
longer; any other text is left alone. Rich breaks the middle one of its columns between words:
level, message, and the file on the right, which comes off.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rerail.evidence.text.lines import Line
from rerail.platform.patterns import linear

NARROWEST, WIDEST = 60, 200
ENOUGH = 3  # lines of the greatest width that go on in the next
MOST_JOINED = 12  # lines that become one


# As rich's handler prints a record, and how far to the right the rest of its message begins.
_OF_RICH = linear(
    r"\s*(?:\S{1,30} +)?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) +(?P<words>\S.*?) {2,}"
    r"[\w.-]{1,60}\.py:\d{1,6}$"
)
_LEFT_COLUMNS = 16


def without_columns(lines: Sequence[Line]) -> list[Line]:
    """The records of rich's logger, each as one line."""
    joined: list[Line] = []
    count = 0  # of the lines that the record at the end of `joined` has taken
    for line in lines:
        if ".py:" in line.text and (found := _OF_RICH.match(line.text)):
            joined.append(replace(line, text=f"{found['level']}: {found['words']}"))
            count = 1
        elif 0 < count < MOST_JOINED and line.text.startswith(" " * _LEFT_COLUMNS):
            joined[-1] = replace(joined[-1], text=f"{joined[-1].text} {line.text.strip()}")
            count += 1
        else:
            joined.append(line)
            count = 0
    return joined


def unwrapped(lines: Sequence[Line]) -> list[Line]:
    width = max((len(line.text) for line in lines), default=0)
    if not NARROWEST <= width <= WIDEST:
        return list(lines)
    broken = [_goes_on(one, other, width) for one, other in itertools.pairwise(lines)]
    if sum(broken) < ENOUGH:
        return list(lines)
    joined = [lines[0]]
    count = 1
    for line, is_rest in zip(lines[1:], broken, strict=True):
        if is_rest and count < MOST_JOINED:
            joined[-1] = replace(joined[-1], text=joined[-1].text + line.text)
            count += 1
        else:
            joined.append(line)
            count = 1
    return joined


def _goes_on(line: Line, following: Line, width: int) -> bool:
    """A new line of a log begins with a space, a capital or a bracket, the rest of a word not."""
    first = following.text[:1]
    return (
        len(line.text) == width
        and line.file == following.file
        and (first.islower() or first.isdigit() or first in "/_.,:;)]}=-")
        and first != ""
    )
