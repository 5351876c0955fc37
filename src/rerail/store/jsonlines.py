"""Reading .jsonl files that somebody may still be writing, or died writing.

In: a path. Out: one parsed object per whole line. A torn last line is dropped; a line that was torn
in the middle (a full disk, a recorder killed and its guardian going on) costs itself alone. A file
that is not there has no lines. Of a file past its bound, stretches that are spread over it are
read, the beginning and the end among them: what it costs is bounded, whatever it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rerail.errors import UnreadableInput
from rerail.store import bounds
from rerail.store.appending import describe
from rerail.store.codec import DecodeError, loads
from rerail.store.regular_files import open_regular

# No honest record is longer; without a bound a binary file in our place would be read whole.
LONGEST_LINE = 8 * 1024 * 1024
STRETCHES = 32  # of a file past its bound


def read_objects(path: Path, last_bytes: int | None = None) -> Iterator[dict[str, Any]]:
    """`last_bytes`: of a long file the first line, which names things, and only the end."""
    try:
        with open_regular(path) as file:
            for line in _lines(file, *bounds.log_bounds(path.name), last_bytes):
                yield from parsed(line)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unreadable(path, describe(error)) from None


def _lines(
    file: BinaryIO, most_bytes: int, most_lines: int, last_bytes: int | None
) -> Iterator[bytes]:
    """Whole lines of the stretches that are to be read."""
    size = os.fstat(file.fileno()).st_size
    most_bytes = _share_to_read(file, size, most_bytes, most_lines)
    if last_bytes is not None and size > last_bytes:
        yield from _lines_between(file, 0, 1)
        yield from _lines_between(file, max(file.tell(), size - last_bytes), size)
    elif size <= most_bytes:
        yield from _lines_between(file, 0, most_bytes)  # also what is added meanwhile
    else:
        length = most_bytes // STRETCHES
        for number in range(STRETCHES):
            begin = (size - length) * number // (STRETCHES - 1)
            yield from _lines_between(file, begin, begin + length)


def _share_to_read(file: BinaryIO, size: int, most_bytes: int, most_lines: int) -> int:
    """The bytes to read so that, as dense as lines are at the beginning, they are not too many."""
    file.seek(0)
    newlines, counted = 0, 0
    while counted < most_bytes and (block := file.read(min(1 << 20, most_bytes - counted))):
        newlines += block.count(b"\n")
        counted += len(block)
        if newlines > most_lines:
            return max(counted * most_lines // newlines, 64 * 1024)
    return most_bytes


def _lines_between(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    """Lines that begin at `begin` or after it and before `end`."""
    file.seek(max(0, begin - 1))
    if begin > 0 and not file.readline(end - begin + 1).endswith(b"\n"):
        return  # all of it lies within one line
    while file.tell() < end and (line := file.readline(LONGEST_LINE)):
        if not line.endswith(b"\n"):
            return
        yield line


def parsed(line: bytes) -> Iterator[dict[str, Any]]:
    """The object of one line; nothing where there is none."""
    try:
        value = loads(line)
    except DecodeError:
        return
    if isinstance(value, dict):
        yield value


def unreadable(path: Path, why: str) -> UnreadableInput:
    return UnreadableInput(
        f"cannot read {path}: {why}",
        "If the run folder was copied, copy it again; `rerail runs` lists what can be read.",
    )


def check_schema(path: Path, found: Any, known: int) -> None:
    if isinstance(found, int) and not isinstance(found, bool) and found == known:
        return
    if found is None:
        raise unreadable(path, f"it names no schema (this rerail reads schema {known})")
    raise UnreadableInput(
        f"{path} has schema {str(found)[:40]}, and this rerail reads schema {known}",
        "Read it with the version of rerail that wrote it, or a later one.",
    )
