"""Limits of the machine that the run comes near to, each told once.

In: the `machine` values of one sample. Out: those that have just passed 90 % of their limit. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

NEAR = 0.9
# What it is called, where its usage and its limit are. Used and free add up to the limit.
USED_OF = {
    "memory": ("cgroup_usage_bytes", "cgroup_limit_bytes"),
    "shared memory": ("shm_used_bytes", "shm_total_bytes"),
    "tasks": ("cgroup_tasks", "cgroup_tasks_limit"),
}
FREE_OF = {"machine memory": ("available_bytes", "total_bytes")}


class NearLimits:
    def __init__(self) -> None:
        self._told: set[str] = set()

    def newly_near(self, machine: Mapping[str, float]) -> list[tuple[str, float, float]]:
        found = []
        for what, used, limit in _usages(machine):
            if what not in self._told and limit > 0 and used >= NEAR * limit:
                self._told.add(what)
                found.append((what, used, limit))
        return found


def _usages(machine: Mapping[str, float]) -> list[tuple[str, float, float]]:
    found = []
    for what, (used, limit) in USED_OF.items():
        if used in machine and limit in machine:
            found.append((what, machine[used], machine[limit]))
    for what, (free, limit) in FREE_OF.items():
        if free in machine and limit in machine:
            found.append((what, machine[limit] - machine[free], machine[limit]))
    return found
