"""Files that only grow, written so that a failing disk never reaches the recorder.

In: whole lines (LineLog). Out: bytes in the file, at once: nothing waits in a buffer of ours, so a
killed recorder loses nothing. Promises: no method raises OSError; a failure is remembered once and
tried again sparsely; lines that could not be written wait, up to a bound, and go out first when
the disk has room again; a half-written line is closed off with a newline, so that it costs itself
alone.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rerail.store.regular_files import BelongsToAnother, open_append, open_regular

RETRY_SECONDS = 2.0  # a full disk is asked again this often, not on every line
PENDING_BYTES = 256 * 1024


class FaultLog:
    """What could not be written and why: the first reason per artefact is kept."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def add(self, what: str, why: OSError | str) -> bool:
        """True the first time that this artefact fails."""
        if what in self._why:
            return False
        self._why[what] = why if isinstance(why, str) else describe(why)
        return True

    def entries(self) -> list[tuple[str, str]]:
        return list(self._why.items())


def describe(error: OSError) -> str:
    if isinstance(error, BelongsToAnother):
        return str(error.strerror)  # it names a path: no letter of it is changed
    return (error.strerror or str(error) or type(error).__name__).lower()


class LineLog:
    """One .jsonl file that grows by whole lines."""

    def __init__(self, path: Path, faults: FaultLog) -> None:
        self.path = path
        self._faults = faults
        self._descriptor = -1
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._retry_at = 0.0
        self._is_torn = False
        self._held: list[bytes] | None = None

    @property
    def descriptor(self) -> int:
        """The open file, or -1."""
        return self._descriptor

    def append(self, line: bytes, is_durable: bool = False) -> bool:
        """Write one line that ends in a newline; False if it has to wait or was lost."""
        if self._held is not None and not is_durable:
            self._held.append(line)
            return True
        if self._held:
            held, self._held = self._held, []
            self._append_all(held)
        if self._pending or self._descriptor < 0:
            self._wait(line)
            return self.flush(is_durable)
        try:
            self._write(line)
            if is_durable:
                os.fsync(self._descriptor)
            return True
        except OSError as error:
            if self._is_torn:
                self._wait(line)
            self._fail(error)
            return False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the lines that are appended within this block in one go at its end."""
        if self._held is not None:
            yield
            return
        self._held = []
        try:
            yield
        finally:
            lines, self._held = self._held, None
            self._append_all(lines)

    def flush(self, is_durable: bool = False, is_urgent: bool = False) -> bool:
        """Write what waits, unless the disk failed a moment ago. `is_urgent`: try all the same."""
        if not is_urgent and time.monotonic() < self._retry_at:
            return False
        try:
            if self._descriptor < 0:
                self._descriptor = open_append(self.path)
                self._is_torn = _ends_torn(self.path)
            while self._pending:
                self._write(self._pending[0])
                self._pending_bytes -= len(self._pending.popleft())
            if is_durable:
                os.fsync(self._descriptor)
            return True
        except OSError as error:
            self._fail(error)
            return False

    def start_writeback(self) -> None:
        start_writeback(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            try:
                os.close(self._descriptor)
            except OSError:
                pass
            self._descriptor = -1

    def _append_all(self, lines: list[bytes]) -> None:
        if self._pending or self._descriptor < 0 or self._is_torn:
            written = 0
        else:
            try:
                written = os.write(self._descriptor, b"".join(lines))
            except OSError:
                written = 0  # line by line it is found out why, and what is kept for later
        for line in lines:
            if written < len(line):
                self._is_torn = self._is_torn or written > 0
                self.append(line)
            written = max(written - len(line), 0)

    def _write(self, line: bytes) -> None:
        if self._is_torn:
            os.write(self._descriptor, b"\n")
            self._is_torn = False
        self._is_torn = True
        written = os.write(self._descriptor, line)
        while written < len(line):
            written += os.write(self._descriptor, line[written:])
        self._is_torn = False

    def _wait(self, line: bytes) -> None:
        if self._pending_bytes + len(line) <= PENDING_BYTES:
            self._pending.append(line)
            self._pending_bytes += len(line)

    def _fail(self, error: OSError) -> None:
        self._faults.add(self.path.name, error)
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self.close()  # opened anew at the next try: the mount may have come back


def start_writeback(descriptor: int) -> None:
    """Ask the kernel to begin writing what it holds of this file, and do not wait for it.

    Left alone it begins after thirty seconds: that much a power cut would cost.
    """
    if descriptor >= 0 and hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass


def make_durable(descriptor: int) -> None:
    """Wait until it is on the disk."""
    if descriptor >= 0:
        try:
            os.fsync(descriptor)
        except OSError:
            pass  # a failing disk has failed its writes before, and those are on record


def _ends_torn(path: Path) -> bool:
    """Whether the file ends within a line: its writer was killed, or the disk filled up."""
    with open_regular(path) as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
