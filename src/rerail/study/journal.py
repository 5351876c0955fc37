"""What happened in a study, appended and on the disk before anything follows from it.

In: events of the study. Out: one JSON object per line of `journal.jsonl`, each flushed to the disk
before `write` returns. A study that is killed loses at most the line that it was writing; the next
start reads the whole ones and goes on in the same file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rerail.errors import RerailError, UsageError
from rerail.store import (
    check_schema,
    describe,
    dump_line,
    layout,
    observed,
    open_append,
    open_descriptor,
    open_regular,
    read_objects,
)
from rerail.study.journal_fields import JOURNAL_FIELDS

SCHEMA = 1
NAME = "journal.jsonl"
LOCK = "lock"


class StudyNotWritable(RerailError):
    """The study's folder cannot be used."""


class Journal:
    """The writing end. One at a time: a second study on the same folder is refused."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(folder)
            is_new = not self.path.exists()
            self._descriptor = open_append(self.path)
            self._end_torn_line()
        except OSError as error:
            raise StudyNotWritable(
                f"cannot write {folder}: {describe(error)}",
                'Say where the study may write, in its file: folder = "/path/with/room"',
            ) from None
        if is_new:
            layout.sync_folder(folder)

    def write(self, kind: str, **fields: Any) -> None:
        event = {"schema": SCHEMA, "unix": round(time.time(), 3), "kind": kind, **fields}
        try:
            layout.write_all(self._descriptor, dump_line(event))
            os.fsync(self._descriptor)
        except OSError as error:
            raise StudyNotWritable(
                f"cannot write {self.path}: {describe(error)}",
                "Make room and start the study again: it goes on where it stopped.",
            ) from None

    def close(self) -> None:
        os.close(self._descriptor)
        os.close(self._lock)

    def _end_torn_line(self) -> None:
        """Of a study that was killed while it wrote: what follows begins on a line of its own."""
        with open_regular(self.path) as file:
            if file.seek(0, os.SEEK_END) == 0:
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(self._descriptor, b"\n")


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """Every whole event, oldest first."""
    path = folder / NAME
    events = []
    for event in read_objects(path):
        check_schema(path, event.get("schema"), SCHEMA)
        if isinstance(event.get("kind"), str):
            kept = observed(event, JOURNAL_FIELDS)
            events.append({name: value for name, value in kept.items() if value is not None})
    return events


def is_running(folder: Path) -> bool:
    """Whether a study is at work on this folder now."""
    import fcntl

    try:
        descriptor = open_descriptor(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int:
    """Held as long as we live, and let go by the kernel however we end."""
    import fcntl

    descriptor = open_descriptor(folder / LOCK, os.O_RDWR | os.O_CREAT)
    for _ in range(50):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.01)  # `rerail study status` asks with the same lock, for a moment
    else:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise UsageError(
            f"this study is running already (process {holder})",
            f"Look at it with `rerail study status`; its folder is {folder}",
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
