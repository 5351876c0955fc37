"""Temporary folders that this process holds; what a killed one left is removed by a later one.

In: the first part of a name, and where. Out: a folder of our own until it is closed. Promises: a
folder that a process holds, that is another user's or that is younger than an hour is not touched.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from rerail.platform.layers import remove_layers

_IN_USE = "in-use"
# What a killed process had started may go on for a while, and write there.
_ABANDONED_SECONDS = 3600.0


class OwnFolder:
    """`path` is there until `close`; raises OSError if it cannot be made."""

    def __init__(self, prefix: str, where: Path | None = None) -> None:
        where = (where or Path(tempfile.gettempdir())).resolve()
        _remove_abandoned(where, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        self._held: IO[str] = (self.path / _IN_USE).open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX)  # let go of, however this process ends

    def close(self) -> None:
        remove_layers(self.path)
        self._held.close()


def _remove_abandoned(where: Path, prefix: str) -> None:
    for path in where.glob(f"{prefix}*"):
        with suppress(OSError):
            status = path.lstat()
            is_old = time.time() - status.st_mtime > _ABANDONED_SECONDS
            if is_old and status.st_uid == os.getuid() and not path.is_symlink():
                with (path / _IN_USE).open() as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_layers(path)
