"""What one attempt took of the machine, from its record.

In: a run folder. Out: peaks and totals by name; what was not recorded is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.errors import RerailError
from rerail.records import VitalsRow
from rerail.store import RunFolder, layout, read_rows

_LAST_BYTES = 64 * 1024  # a few seconds of rows


def measure(folder: RunFolder) -> dict[str, float]:
    try:
        rows = [*folder.vitals(), *folder.recent_vitals()]
    except RerailError:
        return {}
    if not rows:
        return {}
    found = {
        "peak_rss_bytes": max(_highest(row, "rss_bytes") for row in rows),
        "peak_fds": max(_highest(row, "fds") for row in rows),
        "peak_threads": max(_highest(row, "threads") for row in rows),
        "cpu_seconds": max(row.tree.cpu_seconds for row in rows),
        "written_bytes": float(max(row.tree.written_bytes for row in rows)),
    }
    shm = _rise(rows, "shm_used_bytes")
    return {**found, **({"shm_bytes": shm} if shm else {})}


def rss_now(folder: RunFolder) -> float:
    """Of all its processes, at the last moment that was recorded."""
    last = 0.0
    for row in read_rows(folder.path / layout.VITALS_RECENT, _LAST_BYTES):
        last = float(row.tree.rss_bytes)
    return last


def _highest(row: VitalsRow, name: str) -> float:
    return float(row.maximum.get(f"tree.{name}", getattr(row.tree, name)))


def _rise(rows: Iterable[VitalsRow], name: str) -> float:
    """How much a value of the machine rose above where it was at the beginning."""
    first: float | None = None
    highest = 0.0
    for row in rows:
        value = row.maximum.get(f"machine.{name}", row.machine.get(name))
        if value is None:
            continue
        first = value if first is None else min(first, value)
        highest = max(highest, value)
    return 0.0 if first is None else highest - first
