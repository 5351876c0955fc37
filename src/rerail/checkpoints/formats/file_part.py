"""A part of a file as a file of its own, for a reader that wants a whole one."""

from __future__ import annotations

import io
import os
from typing import IO, Any


def open_part(file: IO[bytes], begin: int, end: int) -> IO[bytes]:
    """From `begin` to `end` of `file`; nothing is copied."""
    return io.BufferedReader(_Part(file, begin, end))


class _Part(io.RawIOBase):
    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file = file
        self._begin = begin
        self._size = end - begin
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if self._at < 0:
            raise OSError("a place before the beginning")
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._begin + self._at)
        data = self._file.read(min(len(buffer), max(0, self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
