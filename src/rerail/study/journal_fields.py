"""The fields that events of a study's journal have, and what each must be.

A journal is read back after a crash, and may have been copied or edited: a field that is not what
its name says counts as not written. A path stays within the folder that it is a part of, since
files are removed by it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from rerail.store.plausible import (
    Check,
    is_count,
    is_number,
    is_text,
    is_texts,
    is_time,
)


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _is_duration(value: Any) -> bool:
    return is_time(value) and value >= 0


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


def _is_reasons(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_text, value.values()))


def _is_files(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_collected_file, value))


def is_collected_file(value: Any) -> bool:
    """One row of a manifest: a path inside, a size and a checksum."""
    if not isinstance(value, dict):
        return False
    path = value.get("path")
    if not isinstance(path, str) or "\0" in path:
        return False
    if not is_count(value.get("size_bytes")) or not is_text(value.get("sha256")):
        return False
    parts = PurePosixPath(path)
    return bool(parts.parts) and not parts.is_absolute() and ".." not in parts.parts


JOURNAL_FIELDS: dict[str, Check] = {
    "unix": is_time,
    "attempt": is_count,
    **dict.fromkeys(("cell", "label", "key", "resumed_from", "verdict", "run", "summary"), is_text),
    **dict.fromkeys(("cause", "decision", "failure", "why"), is_text),
    **dict.fromkeys(("changes", "next_changes"), is_texts),
    "probability": _is_share,
    "seconds": _is_duration,
    **dict.fromkeys(("usage", "metrics"), _is_numbers),
    "missing_metrics": _is_reasons,
    "files": _is_files,
}
