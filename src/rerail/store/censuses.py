"""Reads `agent/*.census`: what a process whose memory grew said of what it held.

In: the file of one process, and the monotonic nanoseconds at the start of the run. Out: its
censuses in the order of their steps. A line that is none (torn, damaged, of another schema) is
left out.
"""

from __future__ import annotations

from pathlib import Path

from rerail.records import Census
from rerail.store import bounds, layout
from rerail.store.codec import DecodeError, decode, loads
from rerail.store.regular_files import open_beginning


def read_censuses(path: Path, t0_ns: int) -> list[Census]:
    pid, _, start = path.stem.partition("-")
    if not (pid.isdecimal() and start.isdecimal()):
        return []
    found = []
    with open_beginning(path, bounds.CENSUS_BYTES) as file:
        lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    for line in lines[: bounds.CENSUSES]:
        try:
            value = loads(line)
            if value.pop("schema") != layout.SCHEMA or type(value["monotonic_ns"]) is not int:
                continue
            value["t_seconds"] = (value.pop("monotonic_ns") - t0_ns) / 1e9
            found.append(decode(Census, {**value, "pid": int(pid), "start_ticks": int(start)}))
        except (DecodeError, KeyError, AttributeError, TypeError):
            continue
    return sorted(found, key=lambda census: census.step)
