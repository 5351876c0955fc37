"""`explain --why-not` on the terminal: at most MOST_LINES lines of at most 80 columns.

In: what the diagnosis says against one cause. Out: text; first how likely the cause is, then what
speaks against it, what was looked for and not seen, and what no log could have shown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rerail.platform.os_text import printable
from rerail.wording import LEAST, cut, percent

if TYPE_CHECKING:
    from rerail.diagnosis import WhyNot

MOST_LINES = 12
WIDTH = 80
_LABEL = 10
_COLUMN = WIDTH - _LABEL - 4
_MOST_AGAINST = 3  # of two lines each
_MOST_UNSEEN = 3
_MOST_UNRECORDED = 2


def render(answer: WhyNot) -> str:
    unseen = [item.text for item in answer.missing if not item.needs_recording]
    unrecorded = [item.text for item in answer.missing if item.needs_recording]
    against = [_quoted(item.text, item.source) for item in answer.against[:_MOST_AGAINST]]
    lines = [cut(f"{answer.id}, {percent(max(answer.probability, LEAST))}: {answer.title}", WIDTH)]
    lines += _labelled("against", against or ["nothing that was observed"])
    unseen = [cut(text, _COLUMN) for text in unseen[:_MOST_UNSEEN]]
    lines += _labelled("not seen", unseen or ["nothing: all that a log can show of it was seen"])
    lines += _labelled("no log has", [cut(text, _COLUMN) for text in unrecorded[:_MOST_UNRECORDED]])
    return "\n".join(printable(line) for line in lines[:MOST_LINES])


def _labelled(label: str, items: Sequence[str]) -> Iterator[str]:
    for item in items:
        for line in textwrap.wrap(item, _COLUMN, break_on_hyphens=False)[:2]:
            yield f"  {label:<{_LABEL}}  {line}"
            label = ""


def _quoted(text: str, source: str) -> str:
    """What was observed, cut so that two lines hold it with its source."""
    behind = f" [{source}]" if source else ""
    # A word that does not fit at the end of the first line leaves room there.
    return cut(" ".join(text.split()), 2 * _COLUMN - 24 - len(behind)) + behind
