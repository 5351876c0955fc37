"""Reading a run that is still being written: each look costs what was added since the last one.

In: files of a run folder that grow. Out: the objects of whole new lines, and the last lines of the
output. Promises: a file that was put in another's place is begun anew; of more than a look may read
the newest is read; nothing is written, and what is not there has nothing to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerail.store import layout
from rerail.store.appending import describe
from rerail.store.jsonlines import parsed, unreadable
from rerail.store.regular_files import open_regular, regular_size

MOST_BYTES = 1 << 20  # that one look reads of a file
_FIRST_LINE_BYTES = 64 * 1024


class FollowedLines:
    """A file of JSON lines that somebody adds to."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._inode = 0
        self._at = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """What was added; of a file with more than a look reads, its first line and its end."""
        try:
            with open_regular(self._path) as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._at:
                    self._inode, self._at = status.st_ino, 0
                if status.st_size == self._at:
                    return
                lines = []
                if status.st_size - self._at > self._most_bytes:
                    if self._at == 0:
                        lines.append(file.readline(_FIRST_LINE_BYTES))
                    file.seek(status.st_size - self._most_bytes)
                    file.readline(self._most_bytes)  # the line that begins before
                    self._at = file.tell()
                file.seek(self._at)
                data = file.read(self._most_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise unreadable(self._path, describe(error)) from None
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in (*lines, *whole.split(b"\n")):
            yield from parsed(line)


class FollowedOutput:
    """The end of what the command printed."""

    def __init__(self, folder: Path, most_bytes: int = 64 * 1024) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._seen: tuple[str, int] | None = None
        self._lines: list[bytes] = []

    def tail(self, count: int) -> list[bytes]:
        """The last lines, the unfinished one too."""
        name, size = self._newest()
        seen = self._seen
        if (name, size) != seen:
            data = self._read(name, size)
            self._seen = (name, size)
            lines = data.split(b"\n")
            if lines and not lines[-1]:
                lines.pop()
            if size > len(data) and len(lines) > 1:
                lines = lines[1:]  # of the first only the end was read
            # A new segment has begun: the lines before it are still the last ones.
            if seen is not None and seen[0] != name:
                lines = self._lines + lines
            self._lines = lines[-count:]
        return self._lines[-count:]

    def _newest(self) -> tuple[str, int]:
        numbers = [layout.tail_number(path.name) for path in self._folder.glob("output.tail-*.log")]
        newest = max((number for number in numbers if number is not None), default=None)
        name = layout.OUTPUT if newest is None else layout.tail_name(newest)
        return name, regular_size(self._folder / name) or 0

    def _read(self, name: str, size: int) -> bytes:
        try:
            with open_regular(self._folder / name) as file:
                file.seek(max(0, size - self._most_bytes))
                return file.read(min(size, self._most_bytes))
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise unreadable(self._folder / name, describe(error)) from None
