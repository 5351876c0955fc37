"""The one way in which rerail opens a file of a store, to read it or to add to it.

In: a path inside a run folder or beside it, which a stranger, a crash or a file system may have
made into anything. Out: an open regular file, or an OSError that says what it is instead. Promises:
opening never waits (a named pipe would), never follows a link (to /dev/zero, or to a file of the
user's that we would then add to), and reading has a bound that the caller states.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_FILE_MODE = 0o600


class NotARegularFile(OSError):
    """A link, a pipe, a device or a folder stands where a file belongs."""


class FileTooLarge(OSError):
    """No honest file of this name is so large."""


def open_regular(
    path: Path, most_bytes: int | None = None, *, follows_links: bool = False
) -> BinaryIO:
    """The file, open to be read; refused if it holds more than `most_bytes`.

    `follows_links` is for a file that the user named, who may well have named a link.
    """
    descriptor = open_descriptor(path, os.O_RDONLY, follows_links=follows_links)
    try:
        if most_bytes is not None and os.fstat(descriptor).st_size > most_bytes:
            raise _too_large(path, most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_beginning(path: Path, most_bytes: int) -> BinaryIO:
    """The file as if it ended after `most_bytes`."""
    return io.BufferedReader(_Beginning(open_descriptor(path, os.O_RDONLY), most_bytes))


class _Beginning(io.FileIO):
    def __init__(self, descriptor: int, most_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._most_bytes = most_bytes

    def readinto(self, buffer: Any) -> int:
        left = max(0, self._most_bytes - self.tell())
        with memoryview(buffer) as view, view.cast("B") as octets:
            return super().readinto(octets[:left]) or 0

    def readall(self) -> bytes:
        return self.read(max(0, self._most_bytes - self.tell())) or b""


def read_regular(path: Path, most_bytes: int, *, follows_links: bool = False) -> bytes:
    """All of a file that holds at most `most_bytes`."""
    with open_regular(path, most_bytes, follows_links=follows_links) as file:
        data = file.read(most_bytes + 1)  # it may have grown, or not say how long it is
    if len(data) > most_bytes:
        raise _too_large(path, most_bytes)
    return data


def open_append(path: Path) -> int:
    """A descriptor at the end of the file. The umask can only take bits of 0600 away."""
    return open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def open_descriptor(path: Path | str, flags: int, *, follows_links: bool = False) -> int:
    """os.open for regular files alone."""
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | (0 if follows_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, _FILE_MODE)
    except OSError as error:
        # A link refused by O_NOFOLLOW, a pipe without a reader, a folder, a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK):
            raise _not_regular(path, _mode_of(path)) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _not_regular(path, mode)
    return descriptor


def regular_size(path: Path) -> int | None:
    """How long the file is; None if there is none, or something else stands there."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def is_own_folder(path: Path) -> bool:
    """Whether this is a folder itself, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _mode_of(path: Path | str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _not_regular(path: Path | str, mode: int) -> NotARegularFile:
    kind = next((words for test, words in _KINDS if test(mode)), "not a regular file")
    return NotARegularFile(errno.EINVAL, f"it is {kind} where a file belongs", str(path))


def _too_large(path: Path, most_bytes: int) -> FileTooLarge:
    most = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
    return FileTooLarge(errno.EFBIG, f"it is larger than {most}", str(path))
