"""Puts lines together again that a console broke at its width, in the middle of words.

In: clean lines. Out: lines; what was broken keeps the number of its first line. A console of width
w shows several lines of exactly w characters that the next line goes on with, and none that is
longer; any other text is left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rerail.evidence.text.lines import Line

NARROWEST, WIDEST = 60, 200
ENOUGH = 3  # lines of the greatest width that go on in the next
MOST_JOINED = 12  # lines that become one


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
