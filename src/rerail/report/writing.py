"""Puts a finished report, package or summary into a file that the user named."""

from __future__ import annotations

from pathlib import Path

from rerail.errors import UsageError
from rerail.platform.user_files import advice_on, write_user_file

PRIVATE_MODE = 0o600
SHARED_MODE = 0o644


def write_file(path: Path, data: bytes, mode: int = SHARED_MODE) -> int:
    """Write it whole; its size. A path that cannot be written is the user's to change.

    Who may read it is settled before anything is in it; the umask can only take more away.
    """
    try:
        write_user_file(path, data, mode, is_exact=mode == PRIVATE_MODE)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", advice_on(error, path, "-o FILE")
        ) from None
    return len(data)
