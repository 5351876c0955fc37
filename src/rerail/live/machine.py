"""What else can run out: GPUs, shared memory, open files, tasks and disks, each with its limit.

In: rows of vitals and what the run was started with. Out: `Gauge`s of what was recorded; nothing
is said of what the machine does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rerail.evidence import limit_at_start
from rerail.records import VitalsRow

NEAR = 0.9
_UNLIMITED = 1 << 40
_LITTLE_DISK_BYTES = 1 << 30


@dataclass(frozen=True)
class Gauge:
    name: str  # GPU 0, shm, open files, tasks, disk, working disk
    used: float
    limit: float | None
    unit: Literal["bytes", "count"]
    busy: float | None = None  # of a GPU: the share of time that it computes
    celsius: float | None = None

    @property
    def is_near(self) -> bool:
        if not self.limit:
            return False
        if "disk" in self.name:  # a large disk that is nearly full still has room
            return self.limit - self.used < min(_LITTLE_DISK_BYTES, 0.05 * self.limit)
        return self.used >= NEAR * self.limit


def machine_now(rows: Sequence[VitalsRow]) -> dict[str, float]:
    """The last value of each: a row names only what has changed."""
    machine: dict[str, float] = {}
    for row in rows:
        machine.update(row.machine)
    return machine


def gauges_of(
    machine: Mapping[str, float], last: VitalsRow | None, surroundings: Mapping[str, Any]
) -> list[Gauge]:
    found = _gpus(machine)
    if "shm_used_bytes" in machine and machine.get("shm_total_bytes"):
        found.append(Gauge("shm", machine["shm_used_bytes"], machine["shm_total_bytes"], "bytes"))
    if last is not None and last.processes:
        most = max(vitals.fds for vitals in last.processes.values())
        if most:
            found.append(
                Gauge("open files", most, limit_at_start(surroundings, "RLIMIT_NOFILE"), "count")
            )
    tasks, most_tasks = machine.get("cgroup_tasks"), machine.get("cgroup_tasks_limit")
    if tasks is not None and most_tasks and most_tasks < _UNLIMITED:
        found.append(Gauge("tasks", tasks, most_tasks, "count"))
    return found + _disks(machine)


def _gpus(machine: Mapping[str, float]) -> list[Gauge]:
    numbers = sorted(
        int(name[3 : -len("_used_bytes")])
        for name in machine
        if name.startswith("gpu")
        and name.endswith("_used_bytes")
        and name[3 : -len("_used_bytes")].isdecimal()
    )
    return [
        Gauge(
            f"GPU {number}",
            machine[f"gpu{number}_used_bytes"],
            machine.get(f"gpu{number}_total_bytes"),
            "bytes",
            busy=machine.get(f"gpu{number}_utilisation"),
            celsius=machine.get(f"gpu{number}_temperature"),
        )
        for number in numbers
    ]


def _disks(machine: Mapping[str, float]) -> list[Gauge]:
    """The working folder's, and the store's where it is another one."""
    found = []
    seen: set[float] = set()
    for prefix, name in (("cwd_disk", "disk"), ("disk", "disk of the store")):
        free, total = machine.get(f"{prefix}_free_bytes"), machine.get(f"{prefix}_total_bytes")
        if free is not None and total and total not in seen:
            seen.add(total)
            found.append(Gauge(name, total - free, total, "bytes"))
    return found
