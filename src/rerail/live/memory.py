"""Memory against its limit, and where it is heading.

In: rows of vitals. Out: `Memory`. The limit shown is the one that is nearest: that of the control
group or the machine's RAM. A time to the limit is given only where memory keeps growing; start-up,
a step that came to rest and the breathing of allocators are not growth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from rerail.evidence import trend_of
from rerail.live.machine import machine_now
from rerail.records import VitalsRow

_LEAST_RISE_BYTES = 16 << 20
_LEAST_RISE_SHARE = 0.03
_START_UP_SECONDS = 10.0
_MOST_POINTS = 500


@dataclass(frozen=True)
class Memory:
    rss_bytes: int  # of the whole tree, each page once
    peak_rss_bytes: int
    limit_name: str | None  # "cgroup" or "RAM": the nearest
    used_bytes: int | None  # as the limit counts it
    limit_bytes: int | None
    growth_bytes_per_second: float | None  # None where it is not growing
    seconds_to_limit: float | None
    trend: list[int]  # of the tree's size, oldest first
    growth_bytes_per_step: int | None = None  # None where no steps are seen


def memory_of(
    vitals: Sequence[VitalsRow],
    recent: Sequence[VitalsRow],
    is_running: bool,
    steps_per_second: float | None = None,
) -> Memory | None:
    rows = in_order(vitals, recent)
    steady = steady_rows(vitals, recent, rows)
    return memory_of_rows(rows, machine_now(rows), steady, is_running, steps_per_second)


def in_order(vitals: Sequence[VitalsRow], recent: Sequence[VitalsRow]) -> list[VitalsRow]:
    return sorted((*vitals, *recent), key=attrgetter("t_seconds"))


def steady_rows(
    vitals: Sequence[VitalsRow], recent: Sequence[VitalsRow], rows: Sequence[VitalsRow]
) -> Sequence[VitalsRow]:
    """Those to tell growth from: at one pace, as long as there are enough of them."""
    return vitals if len(vitals) >= len(recent) // 10 else rows


def memory_of_rows(
    rows: Sequence[VitalsRow],
    machine: dict[str, float],
    steady: Sequence[VitalsRow],
    is_running: bool,
    steps_per_second: float | None = None,
) -> Memory | None:
    """`rows` in their order in time, and what `machine_now` makes of them."""
    if not rows:
        return None
    name, used, limit = _nearest_limit(machine)
    growth = _growth(steady) if is_running else None
    seconds = None
    if growth and used is not None and limit is not None:
        seconds = max(0.0, (limit - used) / growth)
    return Memory(
        rss_bytes=rows[-1].tree.rss_bytes,
        peak_rss_bytes=max(map(_highest, rows)),
        limit_name=name,
        used_bytes=used,
        limit_bytes=limit,
        growth_bytes_per_second=round(growth) if growth else None,
        seconds_to_limit=round(seconds, 1) if seconds is not None else None,
        growth_bytes_per_step=(
            round(growth / steps_per_second) if growth and steps_per_second else None
        ),
        trend=[row.tree.rss_bytes for row in _spread(rows, 16)],
    )


def _highest(row: VitalsRow) -> int:
    highest = row.maximum.get("tree.rss_bytes")
    return row.tree.rss_bytes if highest is None else int(highest)


def _nearest_limit(machine: dict[str, float]) -> tuple[str | None, int | None, int | None]:
    candidates: list[tuple[float, str, int, int]] = []
    total, available = machine.get("total_bytes"), machine.get("available_bytes")
    if total and available is not None:
        candidates.append(((total - available) / total, "RAM", int(total - available), int(total)))
    usage, limit = machine.get("cgroup_usage_bytes"), machine.get("cgroup_limit_bytes")
    if usage is not None and limit and (not total or limit < total):
        candidates.append((usage / limit, "cgroup", int(usage), int(limit)))
    if not candidates:
        return None, None, None
    _, name, used_bytes, limit_bytes = max(candidates)
    return name, used_bytes, limit_bytes


def _growth(rows: Sequence[VitalsRow]) -> float | None:
    """Bytes per second, if it keeps growing; file pages are the kernel's to take back."""
    start = rows[0].t_seconds if rows else 0.0
    begin = max(_START_UP_SECONDS, start)
    every = max(1, len(rows) // _MOST_POINTS)  # a long stretch is as clear from a part of its rows
    points = [
        (row.t_seconds, float(row.tree.held_bytes))
        for row in rows[::every]
        if row.span_seconds <= 1.0 and row.t_seconds >= begin
    ]
    if len(points) < 2:
        return None
    least = max(_LEAST_RISE_BYTES, _LEAST_RISE_SHARE * points[0][1])
    found = trend_of(points, least)
    return found.slope if found is not None and found.shape == "leak" else None


def _spread(rows: Sequence[VitalsRow], most: int) -> list[VitalsRow]:
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]
