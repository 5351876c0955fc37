"""Printing for people and for programs: colour, width and JSON in one place."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from rerail.platform.os_text import shown_value
from rerail.store import encode

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 80  # of what is not a terminal


def print_json(document: Any) -> None:
    """One document, and nothing else, on standard output."""
    text = json.dumps(shown_value(encode(document)), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json_line(document: Any) -> None:
    """One document on one line, where several follow each other."""
    text = json.dumps(shown_value(encode(document)), ensure_ascii=False, allow_nan=False)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def console(to_stderr: bool = False) -> Console:
    """80 columns unless a terminal or COLUMNS says otherwise; NO_COLOR is respected."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    return Console(
        file=stream,
        width=None if stream.isatty() and not os.environ.get("COLUMNS") else _plain_width(),
        no_color=True if os.environ.get("NO_COLOR") else None,
        highlight=False,
        emoji=False,
    )


def _plain_width() -> int:
    try:
        return max(20, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        return PLAIN_WIDTH
