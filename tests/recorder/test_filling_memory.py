"""Where a process is while memory fills up is on record before it can be killed for it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rerail.recorder.filling_memory import MOST_LOOKS, FillingMemory
from rerail.recorder.run_record import RunRecord
from rerail.recorder.stalls.stacks_by_debugger import find_program
from rerail.records import Event, ProcessVitals, VitalsRow
from rerail.store import RunFolder, Store

MIB = 1 << 20
LIMIT = {"cgroup_limit_bytes": float(1000 * MIB), "total_bytes": float(9000 * MIB)}


class Filled:
    def __init__(self, home: Path, pid: int) -> None:
        writer = Store(home).create_run(["train"], home, {}, False)
        self._folder = RunFolder(writer.path)
        self._pid = pid
        self.watch = FillingMemory(
            RunRecord(writer), cast("Any", SimpleNamespace(own_helpers=set()))
        )

    def sampled(self, used_mib: int) -> None:
        vitals = ProcessVitals(rss_anon_bytes=used_mib * MIB)
        row = VitalsRow(0.0, 0.0, vitals, 1, {f"{self._pid}-1": vitals}, LIMIT)
        self.watch.sampled(row)

    def places(self) -> list[Event]:
        return [event for event in self._folder.events() if event.kind == "memory-place"]


@pytest.mark.skipif(find_program("py-spy") is None, reason="no py-spy")
def test_the_line_of_the_largest_process_is_told(tmp_path: Path) -> None:
    program = tmp_path / "grows.py"
    program.write_text(
        "def evaluate():\n    while True:\n        pass\nprint(1, flush=True)\nevaluate()\n"
    )
    child = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        filled = Filled(tmp_path / "home", child.pid)
        deadline = time.monotonic() + 180
        while not filled.places() and time.monotonic() < deadline:
            filled.sampled(600)
            filled.sampled(650)
            time.sleep(0.02)
        filled.watch.close()
        (place, *_) = filled.places()
    finally:
        child.kill()
        child.communicate()
    assert (place.data["pid"], place.data["function"]) == (child.pid, "evaluate")
    assert place.data["line"] in (2, 3)
    assert place.data["used"] in (600 * MIB, 650 * MIB)
    assert place.data["limit"] == 1000 * MIB


@pytest.mark.parametrize("used", [10, 499, 940, 1000])
def test_no_look_is_taken_where_there_is_no_need_or_no_room(tmp_path: Path, used: int) -> None:
    filled = Filled(tmp_path, 1)
    filled.watch._begin = lambda *_: pytest.fail("a look")  # type: ignore[method-assign]
    filled.sampled(used)


@pytest.mark.thorough
def test_memory_that_stands_still_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled, looks = Filled(tmp_path, 1), []
    begin = filled.watch._begin
    monkeypatch.setattr(filled.watch, "_begin", lambda *a: (looks.append(a), begin(*a)))
    monkeypatch.setattr("rerail.recorder.filling_memory.LEAST_SECONDS", 0.0)
    for used in (600, 605, 600, 610, 600):
        filled.sampled(used)
        filled.watch.close()
    assert len(looks) == 1
    for number in range(3 * MOST_LOOKS):  # whatever the memory does, the looks come to an end
        filled.watch._looked_at_bytes = 0.0
        filled.sampled(600 + number % 7)
        filled.watch.close()
    assert len(looks) == MOST_LOOKS


def test_a_process_that_is_gone_has_no_place(tmp_path: Path) -> None:
    filled = Filled(tmp_path, 2**22 + 5)  # nobody has this pid
    filled.sampled(600)
    filled.watch.close()
    assert filled.places() == []
