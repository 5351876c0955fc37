"""What a run writes about itself: metrics.jsonl, train.log, lines on the terminal.

metrics.jsonl has one JSON object per line, flushed, so that what happened before a crash is there.
A resumed run drops a line that a crash tore, then appends; of two rows for one step the later
counts. Promises: of two processes, one at most writes in a folder.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lowlight.errors import LowlightError


class Journal:
    def __init__(self, folder: Path) -> None:
        self._metrics = (folder / "metrics.jsonl").open("a+b", buffering=0)
        try:
            # Of the process, not of the open file: workers that outlive a killed training for some
            # seconds do not keep the next one out.
            fcntl.lockf(self._metrics, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._metrics.close()
            raise LowlightError(
                f"another process is training in {folder}; wait for it, or take another --out"
            ) from None
        _drop_torn_line(self._metrics)
        self._log = (folder / "train.log").open("a", encoding="utf-8", buffering=1)

    def record(self, event: str, **values: Any) -> None:
        row = {"event": event, "unix": round(time.time(), 3), **values}
        self._metrics.write(json.dumps(row).encode() + b"\n")

    def say(self, text: str) -> None:
        self._log.write(time.strftime("%Y-%m-%d %H:%M:%S ") + text + "\n")
        print(text, flush=True)  # a pipe would hold it back until the end, or for ever

    def close(self) -> None:
        self._metrics.close()
        self._log.close()


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows in order; a torn last line is dropped."""
    with (folder / "metrics.jsonl").open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _drop_torn_line(file: BinaryIO) -> None:
    file.seek(0)
    whole, newline, torn = file.read().rpartition(b"\n")
    if torn:
        file.truncate(len(whole) + len(newline))
