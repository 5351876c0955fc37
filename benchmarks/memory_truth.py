"""The peak memory of a whole run, measured from outside while it runs without rerail.

In: a command. Out: a `Truth`. Every tenth of a second the process tree is added up, each page once;
what the main process had at most since the last look comes on top, by the kernel's own high-water
mark, which is set back at every look.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.preflight.memory.proc_memory import (
    DataMapping,
    ProcessMemory,
    counted_once,
    data_mappings,
    read_tree,
    tree_of,
    unmapped_shared_bytes,
)

_READ_SECONDS = 0.08


@dataclass(frozen=True)
class Truth:
    once_bytes: int  # each page counted once
    parts: dict[str, int]  # of once_bytes


def true_peak(command: Sequence[str], cwd: Path) -> Truth:
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    best = Truth(0, {})
    pids: list[int] = []
    mappings: dict[int, list[DataMapping]] = {}
    waiting = 0
    looked = mapped_at = 0.0
    while process.poll() is None:
        if time.monotonic() - looked > 0.2:
            pids, looked = tree_of(process.pid), time.monotonic()
        found = read_tree(pids)
        if time.monotonic() - mapped_at > 0.5:
            mappings = {pid: data_mappings(pid) for pid in pids}
            waiting = unmapped_shared_bytes(pids) if len(pids) > 1 else 0
            mapped_at = time.monotonic()
        if found and found[0].pid == process.pid:
            gap = max(0, _high_water(process.pid) - found[0].rss_bytes)
            once, touched = counted_once(found, mappings)
            if once + waiting + gap > best.once_bytes:
                parts = _parts(found, once, touched)
                parts |= {"waiting": waiting, "between looks": gap}
                best = Truth(once + waiting + gap, parts)
        time.sleep(_READ_SECONDS)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return best


def _parts(found: Sequence[ProcessMemory], once: int, touched: int) -> dict[str, int]:
    private = sum(process.anon_bytes for process in found)
    shared = sum(process.shared_bytes for process in found)
    return {
        "private": private,
        "shared": shared,
        "mapped data": touched,
        "libraries": once - private - shared - touched,
        "processes": len(found),
    }


def _high_water(pid: int) -> int:
    """The most since the last time that this was asked."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0
