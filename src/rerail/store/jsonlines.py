"""Reading .jsonl files that somebody may still be writing, or died writing.

In: a path. Out: one parsed object per whole line. A torn last line is dropped; a line that was torn
in the middle (a full disk, a recorder killed and its guardian going on) costs itself alone. A file
that is not there has no lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerail.errors import UnreadableInput
from rerail.store.appending import describe
from rerail.store.codec import DecodeError, loads

# No honest record is longer; without a bound a binary file in our place would be read whole.
LONGEST_LINE = 64 * 1024 * 1024


def read_objects(path: Path, last_bytes: int | None = None) -> Iterator[dict[str, Any]]:
    """`last_bytes`: of a long file the first line, which names things, and only the end."""
    try:
        with path.open("rb") as file:
            if last_bytes is not None and os.fstat(file.fileno()).st_size > last_bytes:
                yield from _parsed(file.readline(LONGEST_LINE))
                file.seek(max(file.tell(), os.fstat(file.fileno()).st_size - last_bytes) - 1)
                file.readline(LONGEST_LINE)
            while line := file.readline(LONGEST_LINE):
                if not line.endswith(b"\n"):
                    return
                yield from _parsed(line)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unreadable(path, describe(error)) from None


def _parsed(line: bytes) -> Iterator[dict[str, Any]]:
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
