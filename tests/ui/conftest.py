"""What the tests of `rerail ui` share: one server over real recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ui_server import UiServer, keep_recording

for _name in ("starlette", "uvicorn", "orjson", "websockets"):
    pytest.importorskip(_name, reason=f"{_name} is not installed: pip install 'rerail[ui]'")

RUNS = {
    "segfault": "20260101-000000-0001",
    "oom-kill": "20260101-000100-0002",
    "hang": "20260101-000200-0003",
    "healthy": "20260101-000300-0004",
    "two-ranks": "20260101-000400-0005",
    "worker-death": "20260101-000500-0006",
}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a recording of each kind."""
    home = tmp_path_factory.mktemp("ui") / "store"
    for name, run_id in RUNS.items():
        keep_recording(home, name, run_id)
    return home


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[UiServer]:
    server = UiServer(home)
    yield server
    server.close()
