"""Writes files whose paths the user named, and never puts a file in the place of a device.

In: a path and the bytes. Out: a regular file that is replaced as a whole, or bytes that were
written into a character device or a pipe. Promises: a link is kept and its target is written; a
device, a pipe or a socket is never renamed over; a block device, a socket and a file that this user
may not write are refused; no write waits for longer than a few seconds for a reader.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path

_STREAM_SECONDS = 5.0
_IN_PLACE_ERRORS = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS}
_HEAD_BYTES = 4096
_MOST_LINKS = 40  # as in the kernel
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_user_file(
    path: Path,
    data: bytes,
    mode: int = 0o644,
    *,
    is_exact: bool = False,
    may_replace: Callable[[bytes], bool] | None = None,
) -> None:
    """Write the data to the path, or raise OSError.

    An existing file keeps its mode, and a new file gets `mode` less the umask. With `is_exact` the
    file gets `mode` in both cases. `may_replace` is asked with the first bytes of an existing file.
    """
    try:
        old = path.stat()
    except FileNotFoundError:
        _replace(Path(os.path.realpath(path)), data, mode, None, is_exact=is_exact)
        return
    if not stat.S_ISREG(old.st_mode):
        _write_stream(path, data, old.st_mode)
        return
    if may_replace is not None and old.st_size and not may_replace(_head(path)):
        raise FileExistsError(errno.EEXIST, "another program wrote this file", str(path))
    if (descriptor := _own_descriptor(path)) is not None:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        return
    if not os.access(path, os.W_OK):  # a rename needs no leave from the file itself
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    target = Path(os.path.realpath(path))
    wanted = mode if is_exact else stat.S_IMODE(old.st_mode)
    try:
        if not os.path.samestat(target.stat(), old):
            raise PermissionError(errno.EPERM, "the link names no path", str(path))
        _replace(target, data, wanted, old, is_exact=True)
    except OSError as error:
        # The folder may be closed to us, or the file may be a mount: the file itself may be open.
        if error.errno not in _IN_PLACE_ERRORS | {errno.ENOENT}:
            raise
        _overwrite(path, data, mode if is_exact else None)


def create_user_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write the data to a new file, or raise OSError and leave none.

    The file gets `mode` less the umask. FileExistsError if anything is there, a dead link included.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def append_to_user_file(path: Path, data: bytes) -> None:
    """Append the data to a regular file that exists, or raise OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "ab") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        file.write(data)


def advice_on(error: OSError, path: Path, option: str) -> str:
    """Return what to type after a write to the path failed; `option` is what names the path."""
    with contextlib.suppress(OSError):
        if is_standard_stream(path):
            return f"Name a regular file with {option}: this is a stream of the command."
        kind = path.stat().st_mode
        if stat.S_ISFIFO(kind):
            return f"Start the program that reads from it first, or name a file with {option}."
        if not stat.S_ISREG(kind):
            return f"Name a regular file with {option}: this is {_in_words(kind)}."
    if error.errno == errno.EEXIST:
        return f"Name a new file or an empty one with {option}. This file was not changed."
    if error.errno in _NO_SPACE:
        return f"Free some space there, or name a file on another file system with {option}."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"Make its folder first, or name a file in another folder with {option}."
    return f"Name a file that you may write with {option}."


def is_standard_stream(path: Path) -> bool:
    """Whether the path leads to standard input, output or error, such as /dev/stdout."""
    return _own_descriptor(path) in (0, 1, 2)


def _in_words(kind: int) -> str:
    is_device = stat.S_ISCHR(kind) or stat.S_ISBLK(kind)
    return "a device" if is_device else "a folder" if stat.S_ISDIR(kind) else "a socket"


def _own_descriptor(path: Path) -> int | None:
    """Return the number if the path is a descriptor of this process, such as /dev/stdout."""
    own = {f"/proc/{os.getpid()}/fd", "/dev/fd"}  # the latter is no link on macOS
    for _ in range(_MOST_LINKS):
        if os.path.realpath(path.parent) in own and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _head(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _HEAD_BYTES)
    finally:
        os.close(descriptor)


def _replace(
    target: Path, data: bytes, mode: int, old: os.stat_result | None, *, is_exact: bool
) -> None:
    beside = target.with_name(f".rerail-{os.getpid()}-{os.urandom(4).hex()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(beside, flags, mode & 0o777), "wb") as file:
            if old is not None:
                with contextlib.suppress(OSError):  # only root may give a file away
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            if is_exact:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _overwrite(path: Path, data: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.ftruncate(descriptor, 0)
        file.write(data)


def _write_stream(path: Path, data: bytes, kind: int) -> None:
    """Write into a character device or a pipe, and give up after a few seconds."""
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "a block device is not written", str(path))
    if stat.S_ISSOCK(kind):
        raise OSError(errno.EINVAL, "a socket is not written", str(path))
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_ISFIFO(kind):
            error.strerror = "nobody reads from this pipe"
        raise
    try:
        if stat.S_IFMT(os.fstat(descriptor).st_mode) != stat.S_IFMT(kind):
            raise OSError(errno.EINVAL, "the path was changed meanwhile", str(path))
        deadline, rest = time.monotonic() + _STREAM_SECONDS, memoryview(data)
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while rest:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimeoutError(errno.ETIMEDOUT, "nothing took the bytes in time", str(path))
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
