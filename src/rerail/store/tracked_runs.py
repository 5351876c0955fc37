"""Reads `agent/*.trackers`: the runs in experiment trackers that a process had open.

In: the file of one process. Out: its runs in the order in which they were opened. A line that is
none (torn, damaged, of another schema) is left out.
"""

from __future__ import annotations

from pathlib import Path

from rerail.records import TrackedRun
from rerail.store import bounds, layout
from rerail.store.codec import DecodeError, decode, loads
from rerail.store.regular_files import open_beginning


def read_tracked_runs(path: Path, t0_ns: int) -> list[TrackedRun]:
    with open_beginning(path, bounds.TRACKERS_BYTES) as file:
        lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    found: list[TrackedRun] = []
    head: dict[str, str] = {}
    for number, line in enumerate(lines[: bounds.TRACKED_RUNS + 1]):
        try:
            value = loads(line)
            if number == 0:
                if value.pop("schema") != layout.SCHEMA:
                    return []
                head = {"python": value["python"], "cwd": value["cwd"]}
            else:
                found.append(decode(TrackedRun, {**value, **head}))
        except (DecodeError, KeyError, AttributeError, TypeError):
            if number == 0:
                return []
    return found
