"""Is this file whole? Told from its own structure, without running anything of it.

In: a path. Out: None if nothing is wrong, else a sentence. Checkpoints, arrays, archives and JSON
are checked as for a restart (remedies); here are the kinds that only results have. A file of a kind
that carries no end of its own (a text log) has to be there, not empty, and not end in zeros.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from rerail.checkpoints import check_checkpoint

# Where the end of a picture is, and how far from the end of the file it may be.
_PICTURE_ENDS = {
    ".png": (b"IEND\xaeB`\x82", 12),
    ".jpg": (b"\xff\xd9", 64),
    ".jpeg": (b"\xff\xd9", 64),
}


def what_is_wrong(path: Path) -> str | None:
    """A sentence if the file cannot be what its name says."""
    found = check_checkpoint(path)
    if not found.is_sound:
        return found.problem
    try:
        suffix = path.suffix.lower()
        if suffix == ".jsonl":
            return _torn_line(path)
        if suffix in _PICTURE_ENDS and not _ends_with(path, *_PICTURE_ENDS[suffix]):
            return "it is cut: the end of the picture is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return None


def _torn_line(path: Path) -> str | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    json.loads(line)
            except (ValueError, RecursionError):
                return f"line {number} is not JSON"
    return None


def _ends_with(path: Path, tail: bytes, within: int) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - within), os.SEEK_SET)
        return tail in file.read(within)
