"""The few calls of the C library that Python does not have.

`become_subreaper`, `set_process_name` and `open_signalfd` answer False or None where the system
has no such call, so that the recorder goes on with less and can say what it lacks.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from typing import Any

from rerail.platform.bare_platform import is_bare

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_SFD_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK if sys.platform == "linux" else 0
_SPLICE_F_NONBLOCK = 2
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100
_STATX_BTIME = 0x800
_STATX_BYTES, _BTIME_AT = 256, 80  # struct statx is the same on every architecture
_tee: Any = None
_SIGSET_BYTES = 128  # sizeof(sigset_t) of glibc and musl


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> bool:
    """From now on orphans among the descendants become children of this process."""
    if is_bare():
        return False
    return bool(_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def stop_being_subreaper() -> None:
    if sys.platform == "linux":
        _library().prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def die_with_parent() -> None:
    """The kernel kills this process when the one that forked it ends, however it ends."""
    if sys.platform == "linux":
        _library().prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def set_process_name(name: str) -> None:
    """What ps and top show: helps a person who wonders what this process is."""
    if sys.platform == "linux":
        _library().prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def born_unix(path: str | os.PathLike[str]) -> float | None:
    """Return when a file was created; None where the file system or the system does not say."""
    if sys.platform != "linux":
        return getattr(os.lstat(path), "st_birthtime", None)
    if not hasattr(_library(), "statx"):
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    name = os.fsencode(path)
    if _library().statx(_AT_FDCWD, name, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, found) != 0:
        return None
    (mask,) = struct.unpack_from("=I", found, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_AT)
    return float(seconds + nanoseconds / 1e9) if mask & _STATX_BTIME else None


def has_tee() -> bool:
    return not is_bare() and hasattr(_library(), "tee")


def tee(source: int, target: int, most_bytes: int) -> int:
    """Duplicate what is in one pipe into another without taking it; 0 at the end of the source."""
    global _tee
    if _tee is None:
        _tee = _library().tee
        _tee.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint]
        _tee.restype = ctypes.c_ssize_t
    count = int(_tee(source, target, most_bytes, _SPLICE_F_NONBLOCK))
    if count < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return count


def open_signalfd(signals: Iterable[int]) -> int | None:
    """A non-blocking descriptor from which these (blocked) signals are read, or None."""
    if is_bare():
        return None
    mask = bytearray(_SIGSET_BYTES)
    for number in signals:
        mask[(number - 1) // 8] |= 1 << (number - 1) % 8
    try:
        signalfd = _library().signalfd
    except AttributeError:
        return None
    buffer = (ctypes.c_char * _SIGSET_BYTES).from_buffer(mask)
    descriptor = int(signalfd(-1, buffer, _SFD_CLOEXEC_NONBLOCK))
    return descriptor if descriptor >= 0 else None
