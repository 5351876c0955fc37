"""The sum over a tree of processes, kept up to date by differences.

In: the values of each process, one whole number per column in the order of the columns (fractions
in thousandths, so that the sum is exact). Out: ProcessVitals. Pure. Promises: a gauge sums over the
living; a counter keeps what ended processes had, so that it never falls. Which column is which is
for vitals_columns.py to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.platform.procfs import THOUSAND
from rerail.records import ProcessVitals
from rerail.vitals_columns import PROCESS_COLUMNS, PROCESS_NAMES

_FRACTIONS = tuple(column.name for column in PROCESS_COLUMNS if column.is_fraction)
_IS_GAUGE = tuple(column.kind == "gauge" for column in PROCESS_COLUMNS)


def as_vitals(values: Sequence[int]) -> ProcessVitals:
    """A ProcessVitals, without the setter that a frozen dataclass calls for each field.

    Made twenty times a call, and that setter is most of what one costs.
    """
    vitals = ProcessVitals.__new__(ProcessVitals)
    found = vitals.__dict__
    found.update(zip(PROCESS_NAMES, values, strict=True))
    for name in _FRACTIONS:
        found[name] /= THOUSAND
    return vitals


class TreeSum:
    def __init__(self) -> None:
        self._values = [0] * len(PROCESS_COLUMNS)

    def add(self, values: Sequence[int]) -> None:
        """A process has begun."""
        self._values = [total + new for total, new in zip(self._values, values, strict=True)]

    def change(self, before: Sequence[int], after: Sequence[int]) -> None:
        self._values = [
            total + new - old for total, old, new in zip(self._values, before, after, strict=True)
        ]

    def remove(self, values: Sequence[int]) -> None:
        """A process has ended."""
        self._values = [
            total - old if is_gauge else total
            for total, old, is_gauge in zip(self._values, values, _IS_GAUGE, strict=True)
        ]

    def vitals(self) -> ProcessVitals:
        return as_vitals(self._values)
