"""What the command printed around its death, and the lines that the evidence points at.

In: the run's output. Out: listings with true line numbers. Bounded whatever the output is: so many
lines, each so long; a progress bar shows its last state, colours are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rerail.platform.terminal_text import last_drawn
from rerail.report.document import Block, Listing, ListingLine, Paragraph, Section
from rerail.store import OutputLine, OutputReader

_LAST_LINES = 150
_AROUND = 4
_MOST_PLACES = 12
_MOST_BYTES = 4 << 20  # of the lines around one place
LONGEST_LINE = 600
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def output_section(output: OutputReader, cited: Sequence[int]) -> Section | None:
    tail = output.tail(_LAST_LINES)
    if not tail:
        return None
    marked = set(cited)
    blocks: list[Block] = []
    first = tail[0].number
    for block in _stretches([number for number in cited if number < first], first):
        lines = list(output.lines(block[0], block[1], _MOST_BYTES))
        if lines:
            caption = f"Lines {lines[0].number} to {lines[-1].number}"
            blocks.append(Listing([_shown(line, marked) for line in lines], caption))
    blocks.append(Listing([_shown(line, marked) for line in tail], "The last lines"))
    if output.dropped_bytes:
        blocks.insert(
            0,
            Paragraph(f"{output.dropped_bytes} bytes in the middle of the output were not kept."),
        )
    return Section("output", "Output around the end", blocks)


def _stretches(numbers: Sequence[int], end: int) -> list[tuple[int, int]]:
    """Places with the lines around them; places that touch become one."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers)[-_MOST_PLACES:]:
        first, last = max(1, number - _AROUND), min(number + _AROUND, end - 1)
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _shown(line: OutputLine, marked: set[int]) -> ListingLine:
    return ListingLine(readable(line.text), line.number, line.number in marked)


def readable(raw: bytes, longest: int | None = LONGEST_LINE) -> str:
    """One line as a person saw it last on the screen, without colours, cut to a length."""
    text = _CONTROL.sub("", last_drawn(raw.decode("utf-8", "replace"))).rstrip()
    return text if longest is None or len(text) <= longest else f"{text[:longest]} …"
