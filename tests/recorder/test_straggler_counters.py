"""What every rank has counted, from the words of its black box."""

from __future__ import annotations

from pathlib import Path

from rerail.agent import rerail_layout as layout
from rerail.recorder.stragglers.counters import RankCounters


def write_box(folder: Path, pid: int, rank: int, steps: int, started_ns: int) -> Path:
    octets = memoryview(bytearray(layout.SIZE))
    words = octets.cast("q")
    words[layout.HEAD["pid"] // 8] = pid
    words[layout.HEAD["started_ns"] // 8] = started_ns
    words[layout.WORD["rank"]] = rank
    words[layout.WORD["optimizer_steps"]] = steps
    row = layout.AREA["history"] // 8 + steps % layout.HISTORY_LENGTH * layout.HISTORY_WORDS
    words[row], words[row + 1] = steps, 10**9 * steps
    path = folder / f"{pid}-1.box"
    path.write_bytes(octets)
    return path


def test_after_a_restart_the_new_process_of_a_rank_counts(tmp_path: Path) -> None:
    """It has made fewer steps than the one that was killed."""
    write_box(tmp_path, 9_000_001, rank=0, steps=1000, started_ns=1)
    write_box(tmp_path, 9_000_002, rank=0, steps=20, started_ns=2)
    write_box(tmp_path, 9_000_003, rank=1, steps=21, started_ns=2)
    write_box(tmp_path, 9_000_004, rank=1, steps=0, started_ns=3)  # its loader's worker
    counters = RankCounters(tmp_path)
    try:
        found = {sample.rank: (sample.pid, sample.steps) for sample in counters.read()}
    finally:
        counters.close()
    assert found == {0: (9_000_002, 20), 1: (9_000_003, 21)}


def test_a_box_that_is_cut_is_left_out(tmp_path: Path) -> None:
    whole = write_box(tmp_path, 9_000_001, rank=0, steps=5, started_ns=1)
    (tmp_path / "9000002-1.box").write_bytes(whole.read_bytes()[:1000])
    (tmp_path / "9000003-1.box").write_bytes(b"")
    counters = RankCounters(tmp_path)
    try:
        assert [sample.rank for sample in counters.read()] == [0]
    finally:
        counters.close()
