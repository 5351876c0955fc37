"""What a run writes about itself: metrics.jsonl, train.log, lines on the terminal, a bar.

metrics.jsonl has one JSON object per line. A resumed run appends after a `resumed` event; of two
rows for one step the later counts. Every line is flushed: what happened before a crash is there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm


class Journal:
    """Silent on every rank but the first."""

    def __init__(self, folder: Path, is_first: bool, has_bar: bool) -> None:
        self._metrics: TextIO | None = None
        self._log: TextIO | None = None
        self._bar: Any = None
        self._has_bar = has_bar and is_first
        if is_first:
            self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
            self._log = (folder / "train.log").open("a", encoding="utf-8", buffering=1)

    def record(self, event: str, **values: Any) -> None:
        if self._metrics is not None:
            row = {"event": event, "unix": round(time.time(), 3), **values}
            self._metrics.write(json.dumps(row) + "\n")

    def say(self, text: str) -> None:
        if self._log is None:
            return
        self._log.write(time.strftime("%Y-%m-%d %H:%M:%S ") + text + "\n")
        if sys.stdout.isatty():
            tqdm.write(text)  # above the bar
        else:
            print(text, flush=True)  # a pipe would hold it back until the end, or for ever

    def open_bar(self, total: int, done: int, epoch: int) -> None:
        if self._has_bar:
            self._bar = tqdm(
                total=total,
                initial=done,
                desc=f"Training epoch {epoch + 1}",
                unit="batch",
                mininterval=0.1 if sys.stderr.isatty() else 2.0,  # a log file is read later
            )

    def advance(self, batches: int, loss: float) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            self._bar.update(batches)

    def close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def close(self) -> None:
        self.close_bar()
        for file in (self._metrics, self._log):
            if file is not None:
                file.close()


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows in order; a torn last line is dropped."""
    with (folder / "metrics.jsonl").open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return
