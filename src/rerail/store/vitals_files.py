"""The vitals files of a run folder: lines are appended, and one file is put aside now and then.

In: names of files in the run folder, and their lines. Out: the files. Promises: one write per line,
so that the death of the recorder costs at most the line in flight; a full disk is reported once,
the torn line is cut off, and writing goes on when there is space.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from rerail.store.regular_files import open_append
from rerail.vitals_columns import PROCESS_NAMES

HEADER = json.dumps({"schema": 1, "process_fields": PROCESS_NAMES})
_RETRY_SECONDS = 5.0


class VitalsFiles:
    def __init__(
        self, folder: Path, report_missing: Callable[[str, str], None] | None = None
    ) -> None:
        self._folder = folder
        self._report_missing = report_missing
        self._has_reported = False
        self._files: dict[str, _AppendOnly] = {}

    def write(self, name: str, line: str, t_seconds: float) -> None:
        self._file(name).write(line, t_seconds)

    def rotate(self, name: str, new_name: str, t_seconds: float) -> None:
        """Rename the file, and start anew."""
        self._file(name).rotate_to(self._folder / new_name, t_seconds)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _file(self, name: str) -> _AppendOnly:
        if name not in self._files:
            self._files[name] = _AppendOnly(self._folder / name, self._report)
        return self._files[name]

    def _report(self, why: str) -> None:
        if not self._has_reported and self._report_missing is not None:
            self._has_reported = True
            self._report_missing("vitals", why)


class _AppendOnly:
    """A file of lines that survives a full disk."""

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self._path = path
        self._report = report
        self._fd = -1
        self._size = 0
        self._retry_at = 0.0

    def write(self, line: str, t_seconds: float) -> None:
        if t_seconds < self._retry_at:
            return
        try:
            if self._fd < 0:
                self._fd = open_append(self._path)
                self._size = os.fstat(self._fd).st_size
            if self._size == 0:
                self._append(HEADER)
            self._append(line)
        except OSError as error:
            self._retry_at = t_seconds + _RETRY_SECONDS
            self._report(f"{self._path.name}: {error.strerror or error}")

    def _append(self, line: str) -> None:
        data = line.encode() + b"\n"
        written = -1
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                raise OSError(28, "No space left on device")
        except OSError:
            # Half a row in the middle of a file would cost the reader that row and the next.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += written

    def rotate_to(self, path: Path, t_seconds: float) -> None:
        """Move what was written aside and start anew."""
        self.close()
        try:
            self._path.replace(path)
        except OSError as error:
            self._retry_at = t_seconds + _RETRY_SECONDS
            self._report(f"{self._path.name}: {error.strerror or error}")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
