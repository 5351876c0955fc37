"""Does memory grow, and how near does it come to its limit?

In: the vitals and black boxes of a run. Out: `memory-growth` for the process of each role that grew
most, `memory-near-limit` for each limit that was nearly reached, and the peaks for the facts.

Start-up is left out: imports, the model and the first batches always grow. Anonymous and shared
memory count, file pages do not: the kernel takes those back when it needs them. The tree's memory
has each page once. Growth is looked for in what a process has resident: its share of common pages
moves when other processes come and go, and that is nobody's growth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.trend import Point, Trend, theil_sen, trend_of, value_at
from rerail.platform.patterns import linear
from rerail.records import MemoryLimit, MemoryNotion, Observation, ProcessVitals, VitalsRow
from rerail.wording import bytes_in_words, percent, role_in_words, seconds_in_words

_MIB = 1 << 20
# Allocators breathe by tens of MiB; a rise below this, or below a twentieth of the level, is that.
_LEAST_RISE_BYTES = 24 * _MIB
_LEAST_RISE_SHARE = 0.05
_WARM_UP_STEPS = 3
_LEAK_STEPS = 8  # fewer cannot be told from one that happened to be large
_LEAK_SECONDS = 30.0  # where steps are not known
_NEAR = 0.9
_REACHED = 0.95
_LEAST_LIMIT_SHARE = 0.15  # a rise below this share of the limit is not what filled it
_REFUSED = linear(r"MemoryError|bad_alloc|[Cc]an(?:no|')t allocate memory|DefaultCPUAllocator")
_HELD_SHARE = 0.5
_MOST_OVER_LIMIT = 1.02  # what the kernel itself needs may go beyond for a moment


@dataclass(frozen=True)
class MemoryPeak:
    rss_bytes: int
    t_seconds: float
    notion: MemoryNotion = "proportional"


def tree_peak(run: RecordedRun) -> MemoryPeak | None:
    """The most memory of the whole tree, minima and maxima of thinned rows included."""
    best: MemoryPeak | None = None
    for row in run.vitals:
        size = int(row.maximum.get("tree.rss_bytes", row.tree.rss_bytes))
        if size and (best is None or size > best.rss_bytes):
            best = MemoryPeak(size, row.t_seconds, row.memory_notion)
    return best


@dataclass(frozen=True)
class MemoryAtPeak:
    row: VitalsRow
    processes: dict[str, ProcessVitals]  # all that were alive then, with their last known values


def memory_at_peak(run: RecordedRun) -> MemoryAtPeak | None:
    """Who had what when the tree had most.

    A row names the processes that have changed, so those before it are looked at as well: the main
    process, which may stand still while its workers grow, is among them.
    """
    if not any(row.processes for row in run.vitals):
        return None
    rows = sorted(run.vitals, key=lambda row: row.t_seconds)
    peak = max(rows, key=lambda row: row.tree.rss_bytes)
    known: dict[str, ProcessVitals] = {}
    for row in rows:
        if row.t_seconds > peak.t_seconds:
            break
        known.update(row.processes)
    if peak.processes and len(peak.processes) == peak.process_count:
        known = dict(peak.processes)
    for key in list(known):
        process = run.by_key.get(key)
        ended = process.ended_t_seconds if process else None
        if ended is not None and ended <= peak.t_seconds:
            del known[key]
    return MemoryAtPeak(peak, known)


def read_memory_growth(run: RecordedRun) -> list[Observation]:
    by_role: dict[str, list[tuple[float, str, Trend, list[Point]]]] = {}
    start = _end_of_start_up(run)
    for key, points in _memory_by_process(run.vitals).items():
        points = _without_teardown(_without_start_up(points, start))
        if not points:
            continue
        least_rise = max(_LEAST_RISE_BYTES, _LEAST_RISE_SHARE * points[0][1])
        trend = _while_it_stepped(run, points, least_rise) or trend_of(points, least_rise)
        if trend is not None:
            trend = _unless_one_piece(run, trend, points)
            process = run.by_key.get(key)
            role = process.role if process else "child"
            by_role.setdefault(role, []).append((trend.rise, key, trend, points))
    found = []
    for role, trends in by_role.items():
        _, key, trend, points = max(trends, key=lambda item: (item[2].shape == "leak", item[0]))
        found.append(_growth(run, role, key, trend, points, len(trends)))
    return sorted(found, key=lambda o: -float(o.data["rise_bytes"]))


def _while_it_stepped(run: RecordedRun, points: list[Point], least_rise: float) -> Trend | None:
    """A leak up to the last step of a program that then found no memory.

    What came after took time without steps: a long traceback, a slow ending on a busy machine. In
    it memory is level, as if it had come to rest.
    """
    box = run.training_box
    if box is None or not box.history:
        return None
    trend = trend_of([p for p in points if p[0] <= box.history[-1].t_seconds], least_rise)
    if trend is None or trend.shape != "leak":
        return None
    return trend if limit_that_was_reached(run, trend.rise) is not None else None


def leaking_pids(run: RecordedRun) -> set[int]:
    """Processes whose memory grew with the steps and had not stopped."""
    growths = [o.data for o in read_memory_growth(run)]
    return {data["pid"] for data in growths if data["shape"] == "leak"}


def limit_that_was_reached(run: RecordedRun, rise_bytes: float) -> int | None:
    """The limit, in bytes, that memory was at in the end, if this rise is what filled it.

    Of an address-space limit, which is on what was asked for and not on what is in use, the level
    that was reached.
    """
    killed = [m.limit_bytes for m in memory_limits(run) if m.oom_kills > 0]
    full = [use.limit_bytes for use in uses_that_press(run) if use.fraction >= _REACHED]
    limit = min([*killed, *full], default=None)
    if limit is None and any(
        _REFUSED.search(f"{box.exception_type}: {box.exception_text}")
        for box in run.boxes
        if box.exception_type
    ):
        peak = tree_peak(run)
        limit = peak.rss_bytes if peak else None
    return limit if limit and rise_bytes >= _LEAST_LIMIT_SHARE * limit else None


def _unless_one_piece(run: RecordedRun, trend: Trend, points: list[Point]) -> Trend:
    """A steady rise that no step goes with is one large piece of work, not a leak."""
    if trend.shape != "leak":
        return trend
    box = run.training_box
    first, last = points[0][0], points[-1][0]
    if box is None or len(box.history) < 3:
        is_leak = last - first >= _LEAK_SECONDS
        at = first
    else:
        at = max(first, min(box.history[-1].t_seconds, last))
        before = value_at(points, at)
        rise_after = points[-1][1] - (before if before is not None else points[0][1])
        passed = sum(first <= p.t_seconds <= last for p in box.history)
        is_leak = passed >= _LEAK_STEPS and rise_after < 0.5 * trend.rise
    return trend if is_leak else replace(trend, shape="step", jump_at=at)


def _growth(
    run: RecordedRun, role: str, key: str, trend: Trend, points: list[Point], alike: int
) -> Observation:
    pid = int(key.partition("-")[0])
    data: dict[str, Any] = {
        "shape": trend.shape,
        "pid": pid,
        "role": role,
        "rise_bytes": int(trend.rise),
        "from_bytes": int(trend.first[1]),
        "to_bytes": int(trend.last[1]),
        "processes": alike,
        "t_seconds": trend.last[0],
    }
    who = f"{role_in_words(role)} (pid {pid})"
    span = f"from {bytes_in_words(trend.first[1])} to {bytes_in_words(trend.last[1])}"
    if trend.shape == "leak":
        data["bytes_per_second"] = trend.slope
        text = f"Memory of {who} grew steadily {span}"
        per_step = _bytes_per_step(run, pid, trend, points)
        if per_step is not None:
            data["bytes_per_step"] = per_step
            text += f", {bytes_in_words(per_step)} with every step"
            data["steps"] = round(trend.rise / per_step) if per_step > 0 else 0
        else:
            text += f", {bytes_in_words(trend.slope)} a second"
        limit = limit_that_was_reached(run, alike * trend.rise)
        if limit is not None:
            data["reached_limit_bytes"] = limit
            text += f", until memory was at its limit of {bytes_in_words(limit)}."
        else:
            text += ", and had not stopped growing."
    elif trend.shape == "step":
        at = trend.jump_at if trend.jump_at is not None else trend.last[0]
        data["jump_t_seconds"] = at
        if trend.slope > 0:  # a rise, not a jump: see _unless_one_piece
            seconds = seconds_in_words(trend.last[0] - trend.first[0])
            text = f"Memory of {who} rose {span} within {seconds}, in one piece of work."
            return Observation("memory-growth", text, f"vitals:{trend.last[0]:.1f}", data)
        text = f"Memory of {who} jumped {span} about {seconds_in_words(at)} after the start; "
        text += (
            "before and after it was level."
            if at < points[-1][0] * 0.9
            else "before, it was level."
        )
    else:
        text = f"Memory of {who} grew {span} and then stayed level."
    if alike > 1:
        text = text[:-1] + f"; {alike} processes of its kind did."
    return Observation("memory-growth", text, f"vitals:{trend.last[0]:.1f}", data)


def _memory_by_process(rows: list[VitalsRow]) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for row in rows:
        for key, vitals in row.processes.items():
            found.setdefault(key, []).append((row.t_seconds, float(_resident_bytes(vitals))))
    return found


def _resident_bytes(vitals: ProcessVitals) -> int:
    return vitals.rss_anon_bytes + vitals.rss_shared_bytes + vitals.swap_bytes


def _end_of_start_up(run: RecordedRun) -> float | None:
    """When the warm-up steps were done; reckoned from the pace if the history begins later."""
    box = run.training_box
    if box is None or len(box.history) < 3:
        return None
    early = [p for p in box.history if p.step <= _WARM_UP_STEPS]
    if early:
        return early[-1].t_seconds
    first = box.history[0]
    pace = theil_sen([(float(p.step), p.t_seconds) for p in box.history])
    return max(0.0, first.t_seconds - (first.step - _WARM_UP_STEPS) * pace)


def _without_start_up(points: list[Point], start: float | None) -> list[Point]:
    if start is None or start < points[0][0]:
        # Unknown: the first tenth, for a process that began later than the steps as well.
        start = points[0][0] + 0.1 * (points[-1][0] - points[0][0])
    return [p for p in points if p[0] >= start]


def _without_teardown(points: list[Point]) -> list[Point]:
    """A program that ends by itself gives its memory back first: that is not how it lived."""
    if len(points) < 8:
        return points
    highest, lowest = max(y for _, y in points), min(y for _, y in points)
    near_top = highest - 0.1 * (highest - lowest)
    last = max(i for i, (_, y) in enumerate(points) if y >= near_top)
    return points[: last + 1] if last >= 0.75 * len(points) else points


def _bytes_per_step(run: RecordedRun, pid: int, trend: Trend, points: list[Point]) -> float | None:
    box = next((b for b in run.boxes if b.pid == pid and b.history), run.training_box)
    if box is None or len(box.history) < 3:
        return None
    steps = [(p.t_seconds, float(p.step)) for p in box.history]
    by_step = [(s, y) for x, y in points if (s := value_at(steps, x)) is not None]
    if len(by_step) >= 5 and by_step[-1][0] > by_step[0][0]:
        return max(theil_sen(by_step), 0.0)
    rate = theil_sen(steps)
    return trend.slope / rate if rate > 0 else None


@dataclass(frozen=True)
class LimitUse:
    source: str
    limit_bytes: int
    used_bytes: int
    t_seconds: float | None

    @property
    def fraction(self) -> float:
        return self.used_bytes / self.limit_bytes


def memory_limits(run: RecordedRun) -> list[MemoryLimit]:
    """The limits with a number that can be reached; the tightest first."""
    real = [m for m in run.after.memory_limits if 0 < m.limit_bytes < 1 << 60]
    return sorted(real, key=lambda m: m.limit_bytes)


def peak_of(limit: MemoryLimit) -> int | None:
    """The most that was used of a limit in this run.

    More than the limit allows is of a run before it, in recordings that took the group's own peak.
    """
    peak = limit.peak_bytes
    return peak if peak is not None and peak <= _MOST_OVER_LIMIT * limit.limit_bytes else None


def limit_uses(run: RecordedRun) -> list[LimitUse]:
    """Highest use of each limit, the most used first."""
    found = list(_cgroup_uses(run))
    machine = _machine_use(run)
    if machine is not None:
        found.append(machine)
    return sorted(found, key=lambda use: -use.fraction)


def _cgroup_uses(run: RecordedRun) -> Iterator[LimitUse]:
    limits = [m for m in memory_limits(run) if m.source.startswith("cgroup")]
    sampled: dict[int, tuple[float, float | None]] = {}
    for row in run.vitals:
        limit_bytes = int(row.machine.get("cgroup_limit_bytes", 0))
        used = row.maximum.get(
            "machine.cgroup_usage_bytes", row.machine.get("cgroup_usage_bytes", 0.0)
        )
        if 0 < limit_bytes < 1 << 60 and used >= sampled.get(limit_bytes, (0.0, None))[0]:
            sampled[limit_bytes] = (used, row.t_seconds)
    for limit in limits:
        used, t_seconds = sampled.pop(limit.limit_bytes, (0.0, None))
        peak = max(int(used), peak_of(limit) or 0)
        if peak:
            yield LimitUse(limit.source, limit.limit_bytes, peak, t_seconds)
    for limit_bytes, (used, t_seconds) in sampled.items():
        yield LimitUse("cgroup", limit_bytes, int(used), t_seconds)


def _machine_use(run: RecordedRun) -> LimitUse | None:
    best: LimitUse | None = None
    for row in run.vitals:
        total = row.machine.get("total_bytes", 0.0)
        available = row.minimum.get("machine.available_bytes", row.machine.get("available_bytes"))
        if total <= 0 or available is None:
            continue
        use = LimitUse("ram", int(total), int(total - available), row.t_seconds)
        if best is None or use.fraction > best.fraction:
            best = use
    return best


def uses_that_press(run: RecordedRun) -> list[LimitUse]:
    """`limit_uses` without cgroups full of file pages, which the kernel takes back."""
    held = max((row.tree.held_bytes for row in run.vitals), default=0)
    return [
        use
        for use in limit_uses(run)
        if use.source == "ram" or not held or held >= _HELD_SHARE * use.limit_bytes
    ]


def read_near_memory_limits(run: RecordedRun) -> list[Observation]:
    found = []
    for use in uses_that_press(run):
        if use.fraction < _NEAR:
            continue
        name = "the machine's memory" if use.source == "ram" else f"the limit of {use.source}"
        when = use.t_seconds if use.t_seconds is not None else run.end_t_seconds
        found.append(
            Observation(
                "memory-near-limit",
                f"Memory reached {bytes_in_words(use.used_bytes)} of "
                f"{bytes_in_words(use.limit_bytes)}, {percent(use.fraction)} of {name}.",
                f"vitals:{when:.1f}",
                {
                    "used_bytes": use.used_bytes,
                    "limit_bytes": use.limit_bytes,
                    "fraction": round(use.fraction, 4),
                    "source": use.source,
                    "t_seconds": use.t_seconds,
                },
            )
        )
    return found
