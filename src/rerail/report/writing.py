"""Puts a finished report, package or summary into a file that the user named."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rerail.errors import UsageError

PRIVATE_MODE = 0o600
SHARED_MODE = 0o644


def write_file(path: Path, data: bytes, mode: int = SHARED_MODE) -> int:
    """Write it whole; its size. A path that cannot be written is the user's to change.

    Who may read it is settled before anything is in it; the umask can only take more away.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            if mode == PRIVATE_MODE and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)  # an older page may lie there, open to all
            file.write(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", "Name another file with -o FILE."
        ) from None
    return len(data)


def append_to_file(path: Path, data: bytes) -> None:
    """At the end of a file that is there; OSError if it is none, and a pipe is not waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "ab") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        file.write(data)
