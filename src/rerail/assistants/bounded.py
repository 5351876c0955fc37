"""A document cut down to what a model can be given at once.

In: plain data of any size. Out: the same in at most so many bytes of JSON. Promises: every key of
an object stays; what is left out of a list or a text is said in its place.
"""

from __future__ import annotations

import json
from typing import Any

MOST_BYTES = 48 << 10
_FIRST_TEXT, _FIRST_ITEMS = 4000, 400
_LEAST = 4


def bounded(value: Any, most_bytes: int = MOST_BYTES) -> Any:
    """Long texts and lists are cut harder and harder until it fits."""
    text, items = _FIRST_TEXT, _FIRST_ITEMS
    while True:
        found = _cut(value, text, items)
        if len(json.dumps(found).encode()) <= most_bytes:
            return found
        if text <= _LEAST and items <= _LEAST:
            return {"left_out": f"all of it: more than {most_bytes:,} bytes"}
        text, items = max(_LEAST, text // 2), max(_LEAST, items * 3 // 4)


def _cut(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str):
        left = len(value) - text
        return value if left <= 0 else f"{value[:text]}… [{left} more characters]"
    if isinstance(value, dict):
        return {str(key): _cut(inner, text, items) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        # The end of a log tells most, and so does the beginning of a ranking.
        shown = [_cut(item, text, items) for item in value]
        if len(shown) <= items:
            return shown
        half = items // 2
        gap = f"[{len(shown) - 2 * half} left out]"
        return [*shown[:half], gap, *shown[len(shown) - half :]]
    return value
