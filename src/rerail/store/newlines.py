"""Counting lines, fast enough for a command that prints a gigabyte in a second.

In: bytes. Out: how many newlines are in them. The agent's C library counts several times as fast as
`bytes.count`; where it was not built, `bytes.count` it is.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

_WORTH_A_CALL = 4096  # below this the call into C costs more than it saves


def count_newlines(data: bytes) -> int:
    if len(data) < _WORTH_A_CALL:
        return data.count(b"\n")
    return _counter()(data, len(data))


@functools.cache
def _counter() -> Callable[[bytes, int], int]:
    from rerail.agent import native_library  # here, as reading a small log does not need it

    library = native_library()
    try:
        if library is not None:
            count = ctypes.CDLL(str(library)).rerail_count_newlines
            count.argtypes = [ctypes.c_char_p, ctypes.c_int64]
            count.restype = ctypes.c_int64
            return count
    except (OSError, AttributeError):
        pass
    return lambda data, size: data.count(b"\n")
