"""Text that was meant for a terminal: its escape sequences, known once.

In: printed text or bytes. Out: the same without colours, cursor movements and window titles.
Promises: linear in the text. Python's own engine is safe here and faster than RE2 for replacing:
no part of the pattern can read past the next escape character, so each character is looked at
once for the escape before it.
"""

from __future__ import annotations

import re

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
ESCAPES = re.compile(_ESCAPE)
ESCAPES_IN_BYTES = re.compile(_ESCAPE.encode())


def without_escapes(text: str) -> str:
    return ESCAPES.sub("", text) if "\x1b" in text else text


def last_drawn(text: str) -> str:
    """What a line showed last, after its redraws by carriage returns; without escapes."""
    drawn = [part for part in without_escapes(text).split("\r") if part.strip()]
    return drawn[-1] if drawn else ""
