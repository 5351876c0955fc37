"""The fields that events of a study's journal have, and the kind of each.

A journal is read back after a crash, and may have been copied or edited: a field that is not of its
kind counts as not written. A path stays within the folder that it is a part of, since files are
removed by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from rerail.bounded import Count, Duration, Number, Share, Time
from rerail.store import checks_of, decoder_of, fits


class _Inside:
    words = "a path inside the folder"

    def holds(self, value: str) -> bool:
        parts = PurePosixPath(value)
        is_name = "\0" not in value and bool(parts.parts)
        return is_name and not parts.is_absolute() and ".." not in parts.parts


@dataclass(frozen=True)
class _CollectedFile:
    """One row of a manifest."""

    path: Annotated[str, _Inside()]
    size_bytes: Count
    sha256: str


class _CollectedFiles:
    """There may be more files than the codec takes records in one list."""

    words = "a list of collected files"

    def holds(self, value: list[Any]) -> bool:
        return all(fits(_COLLECTED, each) for each in value)


_COLLECTED = decoder_of(_CollectedFile)
CollectedFiles = Annotated[list[Any], _CollectedFiles()]

JOURNAL_FIELDS = checks_of(
    {
        "unix": Time,
        "attempt": Count,
        **dict.fromkeys(("cell", "label", "key", "resumed_from", "verdict", "run", "summary"), str),
        **dict.fromkeys(("cause", "decision", "failure", "why"), str),
        **dict.fromkeys(("changes", "next_changes"), list[str]),
        "probability": Share,
        "seconds": Duration,
        **dict.fromkeys(("usage", "metrics"), dict[str, Number]),
        "missing_metrics": dict[str, str],
        "files": CollectedFiles,
    }
)
