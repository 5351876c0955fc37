"""A store in a temporary folder, and runs in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from whole_run import write_whole_run

from rerail.store import RunFolder, RunWriter, Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    monkeypatch.delenv("RERAIL_STORE_LIMIT", raising=False)
    return Store(tmp_path / ".rerail")


@pytest.fixture
def new_run(store: Store) -> Callable[..., RunWriter]:
    def make(command: tuple[str, ...] = ("python", "train.py")) -> RunWriter:
        return store.create_run(list(command), "/data", {"stall": None}, False)

    return make


@pytest.fixture
def whole_run(new_run: Callable[..., RunWriter]) -> RunFolder:
    return write_whole_run(new_run())
