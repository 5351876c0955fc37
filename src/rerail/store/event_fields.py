"""The fields that events have, and what each must be (docs/run-folder.md, "Events").

In: the fields of one event as they were parsed. Out: the same without those that are not what their
name says: a pid that is a text was not observed. Names that are not listed belong to a newer rerail
and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rerail.store.plausible import is_number, is_pid, is_time


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_claim(value: Any) -> bool:
    return isinstance(value, bool)


_FITS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("pid", "ppid", "sender_pid"), is_pid),
    **dict.fromkeys(("start", "rank", "offset", "line", "bytes", "lines"), _is_count),
    "exit_code": _is_whole,
    **dict.fromkeys(("role", "name", "signal", "source", "sender_name", "file"), _is_text),
    **dict.fromkeys(("what", "why", "text", "action"), _is_text),
    "command": _is_texts,
    "core": _is_claim,
    **dict.fromkeys(("used", "limit"), is_number),
    **dict.fromkeys(("silent_seconds", "threshold_seconds", "unix"), is_time),
}


def tidy(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event that are what they should be; null is nothing observed."""
    for name in [name for name, value in fields.items() if not _fits(name, value)]:
        del fields[name]
    return fields


def _fits(name: str, value: Any) -> bool:
    fits = _FITS.get(name)
    return fits is None or value is None or fits(value)
