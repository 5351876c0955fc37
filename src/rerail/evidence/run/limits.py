"""How near did the run come to a limit other than memory?

In: vitals, events and limits. Out: `fds-near-limit`, `threads-near-limit`, `shm-near-limit` and
`disk-near-limit` where use passed eight tenths of a limit or an event says that one was hit, and
`address-space-limit` where RLIMIT_AS is set at all.

A program can lower its own limits, so a limit read from the process itself (a `limit-near` event,
which the recorder writes from /proc/PID/limits) goes before the one the command was started with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.trend import Point, theil_sen
from rerail.records import Observation, ProcessVitals
from rerail.wording import bytes_in_words, sentence

_NEAR = 0.8
# A whole batch is allocated at once, so what is refused may be larger than what is in use.
_NEAR_OF = {"shm-near-limit": 0.4}
_UNLIMITED = 1 << 60
_DISK_LEFT_BYTES = 256 << 20
_EVENT_KINDS = {
    "fds": "fds-near-limit",
    "threads": "threads-near-limit",
    "tasks": "threads-near-limit",
    "pids": "threads-near-limit",
    "shm": "shm-near-limit",
    "disk": "disk-near-limit",
}


@dataclass(frozen=True)
class _Use:
    used: float
    limit: float
    source: str  # RLIMIT_NOFILE, RLIMIT_NPROC, cgroup-pids:/path, /dev/shm, a folder
    t_seconds: float
    grows: bool
    per_step: float | None = None
    pid: int | None = None


def read_limits(run: RecordedRun) -> list[Observation]:
    found: list[Observation] = []
    readers: list[tuple[str, Callable[[RecordedRun], _Use | None]]] = [
        ("fds-near-limit", _fds),
        ("threads-near-limit", _threads),
        ("shm-near-limit", _shm),
        ("disk-near-limit", _disk),
    ]
    for kind, reader in readers:
        measured, told = reader(run), _from_events(run, kind)
        use = _nearer(measured, told)
        if use is not None and use.limit > 0 and use.used / use.limit >= _NEAR_OF.get(kind, _NEAR):
            found.append(_observation(kind, use))
    space = _address_space(run)
    return [*found, *([space] if space else [])]


def _nearer(measured: _Use | None, told: _Use | None) -> _Use | None:
    if measured is None or told is None:
        return measured or told
    if told.limit < measured.limit or told.used / told.limit > measured.used / measured.limit:
        return _Use(**{**vars(told), "grows": measured.grows, "per_step": measured.per_step})
    return measured


def _from_events(run: RecordedRun, kind: str) -> _Use | None:
    best: _Use | None = None
    for event in run.events_of("limit-near"):
        what = str(event.data.get("what", ""))
        if _EVENT_KINDS.get(what.partition(":")[0]) != kind:
            continue
        used, limit = _number(event.data.get("used")), _number(event.data.get("limit"))
        if not limit or used is None:
            continue
        source = str(event.data.get("source") or what.partition(":")[2] or _DEFAULT_SOURCE[kind])
        pid = event.data.get("pid")
        use = _Use(
            used, limit, source, event.t_seconds, False, pid=pid if isinstance(pid, int) else None
        )
        if best is None or use.used / use.limit >= best.used / best.limit:
            best = use
    return best


_DEFAULT_SOURCE = {
    "fds-near-limit": "RLIMIT_NOFILE",
    "threads-near-limit": "pids cgroup",
    "shm-near-limit": "/dev/shm",
    "disk-near-limit": "disk",
}


def _fds(run: RecordedRun) -> _Use | None:
    limit = process_limit(run, "RLIMIT_NOFILE")
    if limit is None:
        return None
    highest = _highest_process(run, lambda v: float(v.fds))
    if highest is None:
        return None
    key, used, t_seconds = highest
    grows, per_step = _growth(run, _curve(run, key, lambda v: float(v.fds)))
    return _Use(
        used, limit, "RLIMIT_NOFILE", t_seconds, grows, per_step, int(key.partition("-")[0])
    )


def _threads(run: RecordedRun) -> _Use | None:
    """Tasks of the tree against the pids cgroup, else against RLIMIT_NPROC."""
    curve = [(row.t_seconds, float(row.tree.threads)) for row in run.vitals]
    grows, per_step = _growth(run, curve)
    uses: list[_Use] = []
    for task_limit in run.after.task_limits:
        limit, peak = _number(task_limit.get("max")), _number(task_limit.get("peak"))
        if limit and limit < _UNLIMITED and peak:
            path = str(task_limit.get("path", ""))
            uses.append(
                _Use(peak, limit, f"pids cgroup {path}".strip(), run.end_t_seconds, grows, per_step)
            )
    for row in run.vitals:
        limit = row.machine.get("cgroup_tasks_limit")
        used = row.maximum.get("machine.cgroup_tasks", row.machine.get("cgroup_tasks"))
        if limit and 0 < limit < _UNLIMITED and used is not None:
            uses.append(_Use(used, limit, "pids cgroup", row.t_seconds, grows, per_step))
    nproc = process_limit(run, "RLIMIT_NPROC")
    if nproc and curve:
        used_at = max(curve, key=lambda p: p[1])
        uses.append(_Use(used_at[1], nproc, "RLIMIT_NPROC", used_at[0], grows, per_step))
    return max(uses, key=lambda use: use.used / use.limit, default=None)


def _shm(run: RecordedRun) -> _Use | None:
    best: _Use | None = None
    curve: list[Point] = []
    for row in run.vitals:
        total = row.machine.get("shm_total_bytes")
        used = row.maximum.get("machine.shm_used_bytes", row.machine.get("shm_used_bytes"))
        if not total or used is None:
            continue
        curve.append((row.t_seconds, used))
        if best is None or used / total >= best.used / best.limit:
            best = _Use(used, total, "/dev/shm", row.t_seconds, False)
    if best is None:
        return None
    return _Use(**{**vars(best), "grows": _growth(run, curve)[0]})


def _disk(run: RecordedRun) -> _Use | None:
    for name, where in (
        ("cwd_disk_free_bytes", "working folder"),
        ("disk_free_bytes", "run store"),
    ):
        points = [
            (row.t_seconds, row.minimum.get(f"machine.{name}", row.machine[name]))
            for row in run.vitals
            if name in row.machine
        ]
        if points and (low := min(points, key=lambda p: p[1]))[1] < _DISK_LEFT_BYTES:
            total = _disk_total(run, name) or max(p[1] for p in points) or 1.0
            return _Use(
                total - low[1], total, f"disk of the {where}", low[0], points[0][1] > low[1]
            )
    return None


def _disk_total(run: RecordedRun, name: str) -> float | None:
    total = name.replace("_free_", "_total_")
    return next((row.machine[total] for row in run.vitals if total in row.machine), None)


def _highest_process(
    run: RecordedRun, value: Callable[[ProcessVitals], float]
) -> tuple[str, float, float] | None:
    best: tuple[str, float, float] | None = None
    for row in run.vitals:
        for key, vitals in row.processes.items():
            if best is None or value(vitals) > best[1]:
                best = (key, value(vitals), row.t_seconds)
    return best


def _curve(run: RecordedRun, key: str, value: Callable[[ProcessVitals], float]) -> list[Point]:
    return [
        (row.t_seconds, value(row.processes[key])) for row in run.vitals if key in row.processes
    ]


def _growth(run: RecordedRun, curve: Sequence[Point]) -> tuple[bool, float | None]:
    """Whether the last two thirds still rise, and by how much with every step, if known."""
    late = curve[len(curve) // 3 :]
    if len(late) < 6:
        return False, None
    slope = theil_sen(late)
    rise = slope * (late[-1][0] - late[0][0])
    box = run.training_box
    if rise < 3 or rise < 0.05 * max(late[-1][1], 1.0):
        return _quick_growth(curve, box.optimizer_steps if box else 0)
    history = box.history if box else []
    step_rate = (
        theil_sen([(p.t_seconds, float(p.step)) for p in history]) if len(history) > 2 else 0.0
    )
    return True, slope / step_rate if step_rate > 0 else None


def _quick_growth(curve: Sequence[Point], steps: int) -> tuple[bool, float | None]:
    """A rise between two samples, as of a program that leaks faster than it is looked at."""
    early = median(value for _, value in curve[: max(1, len(curve) // 3)])
    highest = max(value for _, value in curve)
    if highest - early < 8 or highest < 2 * early:
        return False, None
    return True, (highest - early) / steps if steps >= 10 else None


_WORDS = {
    "fds-near-limit": "open files",
    "threads-near-limit": "threads and processes",
}


def _observation(kind: str, use: _Use) -> Observation:
    fraction = use.used / use.limit
    if kind in _WORDS:
        text = (
            f"{use.used:.0f} of at most {use.limit:.0f} {_WORDS[kind]} ({use.source}) were in use"
        )
        if use.grows:
            text += ", and the number kept growing"
            text += f" by about {use.per_step:.2g} with every step" if use.per_step else ""
    elif kind == "shm-near-limit":
        text = f"/dev/shm (shared memory) held {bytes_in_words(use.used)} "
        text += f"of {bytes_in_words(use.limit)}"
    else:
        text = f"only {bytes_in_words(max(use.limit - use.used, 0))} were left on the {use.source}"
    data: dict[str, Any] = {
        "used": use.used,
        "limit": use.limit,
        "fraction": round(fraction, 4),
        "source": use.source,
        "grows": use.grows,
        "t_seconds": use.t_seconds,
    }
    if use.per_step is not None:
        data["per_step"] = use.per_step
    if use.pid is not None:
        data["pid"] = use.pid
    return Observation(kind, sentence(text), f"vitals:{use.t_seconds:.1f}", data)


def _address_space(run: RecordedRun) -> Observation | None:
    told = [
        limit
        for event in run.events_of("limit-near", "limit-changed")
        if str(event.data.get("what", "")).startswith(("address-space", "RLIMIT_AS"))
        and (limit := _number(event.data.get("limit")))
    ]
    recorded = [float(m.limit_bytes) for m in run.after.memory_limits if m.source == "RLIMIT_AS"]
    started = limit_at_start(run.surroundings, "RLIMIT_AS")
    limits = [
        limit for limit in (*told, *recorded, *([started] if started else [])) if limit < _UNLIMITED
    ]
    if not limits:
        return None
    lowest = int(min(limits))
    return Observation(
        "address-space-limit",
        f"The address space is limited to {bytes_in_words(lowest)} (RLIMIT_AS, ulimit -v): larger "
        "allocations are refused however much memory is free.",
        f"exit:{run.info.root_pid or 0}",
        {"limit_bytes": lowest},
    )


def process_limit(run: RecordedRun, name: str) -> float | None:
    """The lowest that a process of the tree had; without that, what the run started with."""
    lowest = run.after.process_limits.get(name)
    return float(lowest) if lowest is not None else limit_at_start(run.surroundings, name)


def limit_at_start(surroundings: Mapping[str, Any], name: str) -> float | None:
    """A soft limit from surroundings.json; None where unlimited or not recorded."""
    limits = surroundings.get("limits")
    if not isinstance(limits, dict):
        return None
    value = limits.get(name)
    if isinstance(value, dict):
        value = value.get("soft")
    elif isinstance(value, (list, tuple)):
        value = value[0] if value else None
    number = _number(value)
    return number if number is not None and 0 < number < _UNLIMITED else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
