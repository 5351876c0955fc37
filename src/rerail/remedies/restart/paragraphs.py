"""What rerail says between a command's own lines: marked as its own, within 80 columns."""

from __future__ import annotations

import textwrap

WIDTH = 80


def paragraph(text: str) -> str:
    """Paths and commands stay whole, so that they can be copied."""
    return textwrap.fill(
        f"rerail: {text}",
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
