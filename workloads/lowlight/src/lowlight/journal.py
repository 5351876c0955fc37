"""What a run writes about itself: metrics.jsonl, train.log, lines on the terminal.

metrics.jsonl has one JSON object per line, flushed, so that what happened before a crash is there.
A resumed run drops a line that a crash tore, then appends; of two rows for one step the later
counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    def __init__(self, folder: Path) -> None:
        metrics = folder / "metrics.jsonl"
        _drop_torn_line(metrics)
        self._metrics = metrics.open("a", encoding="utf-8", buffering=1)
        self._log = (folder / "train.log").open("a", encoding="utf-8", buffering=1)

    def record(self, event: str, **values: Any) -> None:
        row = {"event": event, "unix": round(time.time(), 3), **values}
        self._metrics.write(json.dumps(row) + "\n")

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


def _drop_torn_line(path: Path) -> None:
    if not path.exists():
        return
    whole = path.read_bytes().rpartition(b"\n")
    if whole[2]:
        os.truncate(path, len(whole[0]) + len(whole[1]))
