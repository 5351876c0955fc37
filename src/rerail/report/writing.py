"""Puts a finished report or package into a file that the user named."""

from __future__ import annotations

from pathlib import Path

from rerail.errors import UsageError


def write_file(path: Path, data: bytes) -> int:
    """Write it whole; its size. A path that cannot be written is the user's to change."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", "Name another file with -o FILE."
        ) from None
    return len(data)
