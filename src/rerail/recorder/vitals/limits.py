"""Limits of the machine that the run comes near to, each told once.

In: the `machine` values of one sample. Out: those that have just passed 90 % of their limit. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from rerail.vitals_columns import MACHINE_COLUMNS

NEAR = 0.9


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
    for column in MACHINE_COLUMNS:
        limit = column.limit
        if limit is not None and column.name in machine and limit.column in machine:
            value, most = machine[column.name], machine[limit.column]
            found.append((limit.called, most - value if limit.is_of_free else value, most))
    return found
