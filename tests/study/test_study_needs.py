"""What a study will need, from what a cell took, against what there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rerail.study import leftovers
from rerail.study.needs import Machine, estimate, in_words, read_machine, shortage

GIB = 2**30
CELL = {"seconds": 60.0, "peak_rss_bytes": 2.0 * GIB, "disk_bytes": 1.0 * GIB, "peak_fds": 50.0}


def test_it_says_what_is_not_enough() -> None:
    need = estimate([CELL], cells_left=7, jobs=2)
    assert need is not None and need.total_seconds == 240
    text = "\n".join(in_words(need, Machine(3 * GIB, 100 * GIB, None, 60)))
    assert "memory: 4 GiB needed, 3 GiB free: NOT ENOUGH" in text
    assert "disk: 7 GiB needed, 100 GiB free: enough" in text
    assert "open files: 50 at most, the limit is 60" in text


def test_a_full_disk_keeps_the_next_cell_from_starting() -> None:
    need = estimate([CELL], 7, 1)
    assert shortage(need, Machine(None, GIB // 2, None, None), 0) is not None
    assert shortage(need, Machine(None, 10 * GIB, None, None), 0) is None
    assert "disk" in (shortage(None, Machine(None, 10, None, None), 0) or "")
    shared = estimate([{**CELL, "shm_bytes": 1.0 * GIB}], 7, 1)
    assert "/dev/shm" in (shortage(shared, Machine(None, 10 * GIB, GIB // 2, None), 0) or "")


def test_before_the_first_cell_nothing_is_claimed() -> None:
    assert estimate([], 8, 1) is None


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    machine = read_machine(tmp_path / "not" / "there" / "yet")
    assert machine.disk_bytes and machine.memory_bytes


def test_only_processes_of_the_study_and_cell_are_ended(tmp_path: Path) -> None:
    def sleeper(cell: str) -> subprocess.Popen[bytes]:
        marks = {leftovers.STUDY_VARIABLE: str(tmp_path), leftovers.CELL_VARIABLE: cell}
        started = subprocess.Popen(
            [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(100)"],
            env={**os.environ, **marks},
            stdout=subprocess.PIPE,
        )
        assert started.stdout is not None and started.stdout.readline() == b"up\n"
        return started

    one, other = sleeper("one"), sleeper("other")
    try:
        assert leftovers.end_leftovers(tmp_path / "elsewhere") == 0
        assert leftovers.end_leftovers(tmp_path, "one") == 1
        assert one.wait(180) != 0 and other.poll() is None
        assert leftovers.end_leftovers(tmp_path) == 1
        assert other.wait(180) != 0
    finally:
        for each in (one, other):
            each.kill()
            each.communicate()
