"""The server against its own description, with requests that schemathesis makes up."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from ui_server import UiServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed"),
]


def test_nothing_that_is_asked_breaks_it(server: UiServer, tmp_path: Path) -> None:
    found = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.base}/openapi.json"),
            *("--header", f"Authorization: Bearer {server.token}"),
            *("--checks", "all", "--max-examples", "15", "--phases", "coverage,fuzzing"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert found.returncode == 0, found.stdout[-4000:]
