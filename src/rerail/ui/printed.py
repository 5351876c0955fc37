"""The output of a run, a window of lines at a time, and where a word stands in it.

In: the masked output and what is asked of it. Out: lines with their true numbers, as plain JSON
values. Promises: bounded whatever the output is; colours and redrawn progress bars are gone,
control characters are shown as signs; a line that goes on for ever is cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rerail.platform.os_text import shown
from rerail.store import OutputLine, OutputReader
from rerail.ui.settings import LONGEST_LINE, MOST_LINES, MOST_OUTPUT_BYTES

MOST_FOUND = 500
SEARCH_SECONDS = 10.0


def shown_line(line: OutputLine) -> dict[str, Any]:
    text = shown(line.text.decode("utf-8", "replace"))
    is_cut = len(text) > LONGEST_LINE
    return {"number": line.number, "text": f"{text[:LONGEST_LINE]} …" if is_cut else text}


def window(output: OutputReader, first: int, count: int) -> dict[str, Any]:
    """Lines from `first` on."""
    count = min(count, MOST_LINES)
    lines = _joined(output.lines(first, first + count - 1, MOST_OUTPUT_BYTES))
    return {"schema": 1, "lines": lines, "dropped_bytes": output.dropped_bytes}


def tail(output: OutputReader, count: int) -> dict[str, Any]:
    lines = _joined(output.tail(min(count, MOST_LINES)))
    return {"schema": 1, "lines": lines, "dropped_bytes": output.dropped_bytes}


def search(output: OutputReader, words: str, first: int = 1) -> dict[str, Any]:
    """Lines that hold the words, whatever their case, from `first` on."""
    wanted = words.lower()
    found: list[dict[str, Any]] = []
    until = time.monotonic() + SEARCH_SECONDS
    is_complete = True
    for line in output.lines(first):
        text = shown_line(line)
        if wanted in str(text["text"]).lower():
            found.append(text)
        if len(found) >= MOST_FOUND or time.monotonic() > until:
            is_complete = False
            break
    return {"schema": 1, "words": words, "lines": found, "is_complete": is_complete}


def _joined(lines: Iterable[OutputLine]) -> list[dict[str, Any]]:
    """One entry per number: of a line that came in pieces the last one, which is on the screen."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        found[line.number] = shown_line(line)
    return list(found.values())
