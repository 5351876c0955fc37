"""The one way in which rerail opens a file of a store, to read it or to add to it.

In: a path inside a run folder or beside it, which a stranger, a crash or a file system may have
made into anything. Out: an open regular file, or an OSError that says what it is instead. Promises:
opening never waits (a named pipe would), never follows a link (to /dev/zero, or to a file of the
user's that we would then add to), never adds to a file of another user's, and reading has a bound
that the caller states.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shlex
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


class BelongsToAnother(PermissionError):
    """Another user could replace or read what we would write here."""


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


def open_append(path: Path, *, is_shared: bool = False) -> int:
    """Return a descriptor at the end of the file. The umask can only take bits of 0600 away.

    The file and its folder have to be ours, so that nobody who swapped the folder for his own gets
    what we write. `is_shared` is for a cache of the store, which root may write for its owner.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return open_descriptor(path, flags) if is_shared else open_own(path, flags)


def open_own(path: Path, flags: int) -> int:
    """Open a regular file that is ours, in a folder that is ours or root's and not a link."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _demand_own(os.fstat(folder).st_uid, folder, (0, os.geteuid()))
        descriptor = open_descriptor(path.name, flags, dir_fd=folder)
        try:
            _demand_own(os.fstat(descriptor).st_uid, folder, (os.geteuid(),))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
    finally:
        os.close(folder)


def demand_safe_folder(path: Path) -> None:
    """Raise BelongsToAnother if a user who is neither we nor root can replace what is in there."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        _demand_own(status.st_uid, folder, (0, os.geteuid()))
    finally:
        os.close(folder)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise BelongsToAnother(
            errno.EPERM,
            f"every user can replace the runs in it; type `chmod o-w {shlex.quote(str(path))}`, "
            "or name a store of your own with --home",
        )


def _demand_own(owner: int, folder: int, accepted: tuple[int, ...]) -> None:
    """Compare owners; where the file system gives our files another owner, accept that one."""
    if owner not in accepted and owner != _owner_of_new_files(folder):
        raise BelongsToAnother(
            errno.EPERM,
            f"it belongs to another user (number {owner}); name a store of your own with --home",
        )


def _owner_of_new_files(folder: int) -> int | None:
    """Return whose a file is that we make here: not ours on NFS with root_squash, or on FAT."""
    name = f".owner-{os.getpid()}-{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, _FILE_MODE, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def open_descriptor(
    path: Path | str, flags: int, *, follows_links: bool = False, dir_fd: int | None = None
) -> int:
    """os.open for regular files alone."""
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | (0 if follows_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, _FILE_MODE, dir_fd=dir_fd)
    except OSError as error:
        # A link refused by O_NOFOLLOW, a pipe without a reader, a folder, a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK):
            raise _not_regular(path, _mode_of(path, dir_fd)) from None
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


def _mode_of(path: Path | str, dir_fd: int | None = None) -> int:
    try:
        return os.lstat(path, dir_fd=dir_fd).st_mode
    except OSError:
        return 0


def _not_regular(path: Path | str, mode: int) -> NotARegularFile:
    kind = next((words for test, words in _KINDS if test(mode)), "not a regular file")
    return NotARegularFile(errno.EINVAL, f"it is {kind} where a file belongs", str(path))


def _too_large(path: Path, most_bytes: int) -> FileTooLarge:
    most = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
    return FileTooLarge(errno.EFBIG, f"it is larger than {most}", str(path))
