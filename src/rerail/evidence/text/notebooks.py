"""The text that a notebook's cells printed.

In: the bytes of an .ipynb. Out: its streams and errors in the order of the cells, as a terminal
would have shown them, without colours. Pictures, tables and the code itself are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rerail.errors import UnreadableInput
from rerail.platform.terminal_text import without_escapes

MOST_BYTES = 128 << 20  # pictures stand in it as text


def is_notebook(head: bytes) -> bool:
    """Whether a file that begins like this is one: its cells, or its format, stand first."""
    is_object = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return is_object and (b'"cell_type"' in head or b'"nbformat"' in head)


def printed_by(raw: bytes, name: str) -> bytes:
    """Everything that its cells printed; nothing if it was saved without its outputs."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise UnreadableInput(
            f"{name} is not a whole notebook: its JSON cannot be read.",
            "Save it again, or name a log file.",
        ) from None
    text = "".join(f"{part}\n" if not part.endswith("\n") else part for part in _parts(document))
    return without_escapes(text).encode("utf-8", "replace")


def _parts(document: Any) -> Iterator[str]:
    for cell in _cells(document):
        for output in _dicts(cell.get("outputs")):
            kind = output.get("output_type")
            if kind == "stream":
                yield _text(output.get("text"))
            elif kind in ("error", "pyerr"):
                yield _error(output)


def _cells(document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    yield from _dicts(document.get("cells"))
    for sheet in _dicts(document.get("worksheets")):  # before version 4 of the format
        yield from _dicts(sheet.get("cells"))


def _error(output: dict[str, Any]) -> str:
    """The traceback as it was shown; its last line says what the two other fields say."""
    last = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    shown = output.get("traceback")
    lines = [part for part in shown if isinstance(part, str)] if isinstance(shown, list) else []
    return "\n".join(lines) if lines else last


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
