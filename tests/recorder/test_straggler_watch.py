"""Slow ranks are told while the run lives, to whom it matters, and not for ever."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rerail.agent import rerail_layout as layout
from rerail.notify import Notifier, notifier_of
from rerail.recorder.stragglers.watch import MOST_PRINTED, MOST_RECORDED, RankWatch
from rerail.store import RunFolder, RunWriter, Store

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="boxes are read with /proc")


class Ranks:
    """Black boxes of three ranks, as their agents would write them."""

    def __init__(self, folder: Path) -> None:
        self._boxes = [memoryview(bytearray(layout.SIZE)).cast("q") for _ in range(3)]
        self._paths = [folder / f"{9_000_000 + rank}-1.box" for rank in range(3)]
        self._steps, self._now = 0, 0.0

    def step(self, steps: int, slow: float) -> None:
        """Rank 1 needs `slow` more than the others, who wait for it."""
        self._steps += steps
        self._now += steps * 0.05 * (1 + slow)
        for rank, words in enumerate(self._boxes):
            waited = steps * 0.05 * slow if rank != 1 else 0.0
            words[layout.HEAD["pid"] // 8] = 9_000_000 + rank
            words[layout.WORD["rank"]] = rank
            words[layout.WORD["optimizer_steps"]] = self._steps
            words[layout.WORD["collective_ns"]] += int(1e9 * waited)
            row = layout.AREA["history"] // 8
            row += self._steps % layout.HISTORY_LENGTH * layout.HISTORY_WORDS
            words[row], words[row + 1] = self._steps, int(1e9 * self._now)
            self._paths[rank].write_bytes(words)


def watching(
    home: Path, notifier: Notifier | None = None
) -> tuple[RankWatch, RunWriter, Ranks, set[int]]:
    writer = Store(home).create_run(["train"], home, {}, False)
    helpers: set[int] = set()
    tree = SimpleNamespace(living={}, own_helpers=helpers)
    options = SimpleNamespace(is_quiet=False, notifier=notifier)
    watch = RankWatch(writer, cast("Any", tree), cast("Any", options))
    return watch, writer, Ranks(writer.agent_dir), helpers


def events(writer: RunWriter) -> list[str]:
    found = [event.kind for event in RunFolder(writer.path).events()]
    return [kind for kind in found if kind.startswith("straggler")]


@pytest.mark.thorough
def test_a_rank_that_is_slow_again_and_again_is_not_told_for_ever(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch, writer, ranks, _ = watching(tmp_path)
    ranks.step(20, 0.0)
    times = MOST_RECORDED // 2 + 20
    for _ in range(times):
        for slow in (*(0.5,) * 9, *(0.0,) * 9):
            ranks.step(5, slow)
            watch.look()
    watch.close()
    printed = [line for line in capfd.readouterr().err.splitlines() if "rank 1" in line]
    assert 2 <= len(printed) <= MOST_PRINTED
    kinds = events(writer)
    assert MOST_RECORDED // 2 <= len(kinds) <= MOST_RECORDED + 1
    assert kinds[-1] == "straggler-over"  # who looks later does not see it for ever
    notes = [e.data["text"] for e in RunFolder(writer.path).events() if e.kind == "note"]
    assert any("not recorded" in text for text in notes)


def test_whoever_is_told_of_stalls_is_told_of_a_slow_rank_three_times_at_most(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    code = "import os, sys; os.write(1, (os.environ['RERAIL_EVENT'] + ' ').encode())"
    code += "; os.write(1, os.environ['RERAIL_HEADLINE'].encode() + b'\\n')"
    notifier = notifier_of([f'"{sys.executable}" -c "{code}" >> {told}'], "stall", {})
    assert notifier is not None
    watch, _, ranks, helpers = watching(tmp_path / "home", notifier)
    ranks.step(20, 0.0)
    for slow in ((*(0.5,) * 9, *(0.0,) * 9)) * 5:
        ranks.step(5, slow)
        watch.look()
    watch.close()
    assert len(helpers) == 3
    for pid in helpers:
        os.waitpid(pid, 0)
    lines = told.read_text().splitlines()
    assert len(lines) == 3
    assert all(line.startswith("stall rank 1 (pid 9000001) is ") for line in lines)
    assert all("% slower than the others since step" in line for line in lines)
