"""A run that lives while a test watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watched_runs import WatchedRun

pytest.importorskip("textual", reason="rerail watch needs Textual: pip install 'rerail[watch]'")


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., WatchedRun]]:
    started: list[WatchedRun] = []

    def start(first_line: str = "hello", *, label: str = "watched") -> WatchedRun:
        started.append(WatchedRun(tmp_path / "store", first_line, label=label))
        return started[-1]

    yield start
    for run in started:
        run.close()
