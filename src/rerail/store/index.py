"""A cache over the run folders, so that listing a thousand runs reads none of them again.

In: run folders. Out: what `rerail runs` needs of each, as long as the folder has not changed since.
Promises: nothing is true because the index says so. A row counts only while the folder's files have
the times and sizes it was read at; an index that is corrupt is deleted and filled again; one that
cannot be written, locked or opened, or that is no file but a link or a pipe, is done without, and
`problem` says why. What it costs is bounded: a database can be made to answer for ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rerail.store import layout
from rerail.store.appending import describe
from rerail.store.regular_files import NotARegularFile, open_append, open_descriptor

if TYPE_CHECKING:
    import sqlite3

VERSION = 1  # of this table; another version is deleted and filled again
BUSY_SECONDS = 0.5
MOST_SECONDS = 5.0  # in all; reading ten thousand rows takes a tenth of one
MOST_ROWS = 1_000_000
MOST_TEXT = 64 << 20  # of all rows together
_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite itself opens beside it


class Index:
    """Rows of (id, stamp, text, size in bytes). Every method is quiet about a broken database."""

    def __init__(self, home: Path) -> None:
        self._path = home / layout.INDEX
        self._connection: sqlite3.Connection | None = None
        self.problem: str | None = None
        self._deadline = time.monotonic() + MOST_SECONDS
        self._open(may_repair=True)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def rows(self) -> dict[str, tuple[str, str, int]]:
        """id → (stamp, text, size in bytes); empty if the index is of no use."""
        import sqlite3

        for may_repair in (True, False):
            if self._connection is None:
                return {}
            try:
                found = self._connection.execute(
                    "SELECT id, stamp, text, bytes FROM runs LIMIT ?", (MOST_ROWS,)
                )
                return _bounded(found)
            except sqlite3.Error as error:
                self._give_up(error, may_repair)
        return {}

    def update(self, changed: Iterable[tuple[str, str, str, int]], gone: Iterable[str]) -> None:
        """Put rows in and take rows out, all or nothing."""
        import sqlite3

        changed, gone = list(changed), list(gone)
        if self._connection is None or not (changed or gone):
            return
        try:
            with self._connection:
                self._connection.executemany(
                    "INSERT OR REPLACE INTO runs (id, stamp, text, bytes) VALUES (?, ?, ?, ?)",
                    changed,
                )
                self._connection.executemany(
                    "DELETE FROM runs WHERE id = ?", [(name,) for name in gone]
                )
        except sqlite3.Error as error:
            self._give_up(error, may_repair=False)

    def close(self) -> None:
        if self._connection is not None:
            import sqlite3

            try:
                self._connection.close()
            except sqlite3.Error:
                pass
            self._connection = None

    def _open(self, may_repair: bool) -> None:
        import sqlite3

        if not self._path.parent.is_dir():
            return
        try:
            # Created by us first: SQLite would take the umask for the file and its -wal.
            os.close(open_append(self._path, is_shared=True))
            for suffix in _BESIDE:
                _check_regular(self._path.with_name(self._path.name + suffix))
            self._connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS)
            # True interrupts: a view under the name of our table could go on for ever.
            self._connection.set_progress_handler(
                lambda: time.monotonic() > self._deadline, 100_000
            )
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")  # a cache need not survive
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError(f"index version {version}")
            with self._connection:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS runs"
                    " (id TEXT PRIMARY KEY, stamp TEXT, text TEXT, bytes INTEGER)"
                )
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        except (sqlite3.Error, OSError, TypeError) as error:
            self._give_up(error, may_repair)

    def _give_up(self, error: Exception, may_repair: bool) -> None:
        """Do without the index, or start a new one if this one is beyond use."""
        import sqlite3

        self.close()
        if isinstance(error, OSError):
            self.problem = describe(error)
        # OperationalError is what a lock, a read-only disk or a missing permission gives: the
        # file itself may be sound, and another process may be using it.
        is_broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        if is_broken and may_repair:
            self.delete()
            self._open(may_repair=False)

    def delete(self) -> None:
        self.close()
        for suffix in ("", *_BESIDE):
            try:
                self._path.with_name(self._path.name + suffix).unlink()
            except OSError:
                pass


def _bounded(found: Iterable[tuple[object, ...]]) -> dict[str, tuple[str, str, int]]:
    """Rows that are rows, as long as all of them together are of a sensible size."""
    rows = {}
    left = MOST_TEXT
    for name, stamp, text, size in found:
        if isinstance(name, str) and isinstance(stamp, str) and isinstance(text, str):
            left -= len(name) + len(stamp) + len(text)
            if left < 0:
                break
            if isinstance(size, int) and size >= 0:
                rows[name] = (stamp, text, size)
    return rows


def _check_regular(path: Path) -> None:
    try:
        os.close(open_descriptor(path, os.O_RDONLY))
    except NotARegularFile:
        raise
    except OSError:
        pass  # not there, or not ours: SQLite says so itself
