"""Trials at once on a machine that is short of memory: said, and gone on with fewer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rerail.experiments.isolation.options import IsolateOptions
from rerail.experiments.isolation.session import investigate
from rerail.experiments.trials.live_view import Silent
from rerail.store import Store

DIES = str(Path(__file__).parent.parent / "programs" / "isolate_dies.py")


class Listener(Silent):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def said(self, text: str) -> None:
        self.heard.append(text)


@pytest.mark.thorough
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_short_of_memory_it_goes_on_one_at_a_time_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What one run takes is measured; only what the machine has left is made up here.
    monkeypatch.setattr("rerail.scheduling.local.available_bytes", lambda: 1 << 20)
    listener = Listener()
    document = investigate(
        [sys.executable, DIES],
        ["--mode good", "--colour blue"],
        Store(tmp_path / "home"),
        IsolateOptions(jobs=2, max_trials=40, may_write=True),
        listener,
    )
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]
    (short,) = [text for text in listener.heard if "of memory" in text]
    assert short.startswith("2 runs at once need ") and "going on with 1 at a time" in short
