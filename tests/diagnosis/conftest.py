"""What the tests of a diagnosis have in common."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def without_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No model is asked that the machine's own variables name."""
    for name in ("RERAIL_ASK", "RERAIL_ASK_MODEL", "RERAIL_ASK_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
