"""Vitals as plain columns, which pandas and numpy take as they are.

In: rows of vitals, oldest first. Out: a dict of lists of equal length, one number per cell. NaN is
what was not observed. Sums over the tree have the names of records.ProcessVitals, quantities of the
machine those of docs/run-folder.md with `machine_` in front.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rerail.records import ProcessRecord, ProcessVitals, VitalsRow

QUANTITIES = ("rss_bytes", *(field.name for field in dataclasses.fields(ProcessVitals)))
_EXTREMES = ("min", "max")


def tree_columns(
    rows: Sequence[VitalsRow], *, with_extremes: bool = False
) -> dict[str, list[float]]:
    """One row per sample. A machine value that a sample leaves out is as in the one before.

    With extremes there is a `_min` and a `_max` beside each quantity: the least and the most within
    the time that a thinned sample stands for.
    """
    rows = _samples(rows)
    machine_names = sorted({name for row in rows for name in row.machine})
    columns: dict[str, list[float]] = {
        "t_seconds": [row.t_seconds for row in rows],
        "span_seconds": [row.span_seconds for row in rows],
        "process_count": [row.process_count for row in rows],
    }
    for name in QUANTITIES:
        columns[name] = [getattr(row.tree, name) for row in rows]
        if with_extremes:
            _add_extremes(columns, name, f"tree.{name}", rows)
    for name in machine_names:
        columns[f"machine_{name}"] = _carried_on(name, rows)
        if with_extremes:
            _add_extremes(columns, f"machine_{name}", f"machine.{name}", rows)
    return columns


def process_columns(
    rows: Sequence[VitalsRow], processes: Sequence[ProcessRecord]
) -> dict[str, list[Any]]:
    """One row per sample and process, as far as the sample holds the process.

    A process that a sample leaves out has not moved since the one before.
    """
    rows = _samples(rows)
    known = {process.key: process for process in processes}
    seen = [(row.t_seconds, key, row.processes[key]) for row in rows for key in row.processes]
    columns: dict[str, list[Any]] = {
        "t_seconds": [t_seconds for t_seconds, _, _ in seen],
        "process": [key for _, key, _ in seen],
        "pid": [int(key.partition("-")[0]) if key[:1].isdigit() else -1 for _, key, _ in seen],
        "role": [_about(known, key, "role", "") for _, key, _ in seen],
        "rank": [_about(known, key, "rank", math.nan) for _, key, _ in seen],
    }
    for name in QUANTITIES:
        columns[name] = [getattr(vitals, name) for _, _, vitals in seen]
    return columns


def _samples(rows: Sequence[VitalsRow]) -> list[VitalsRow]:
    """Without a row that is written again: the last one of a run, for what it had left out."""
    return list({row.t_seconds: row for row in rows}.values())


def _about(known: Mapping[str, ProcessRecord], key: str, name: str, otherwise: Any) -> Any:
    value = getattr(known[key], name) if key in known else None
    return otherwise if value is None else value


def _carried_on(name: str, rows: Sequence[VitalsRow]) -> list[float]:
    column, value = [], math.nan
    for row in rows:
        value = row.machine.get(name, value)
        column.append(value)
    return column


def _add_extremes(
    columns: dict[str, list[float]], name: str, key: str, rows: Sequence[VitalsRow]
) -> None:
    """What a row does not say of its extremes is its value: nothing else was seen."""
    for suffix in _EXTREMES:
        said = [row.minimum if suffix == "min" else row.maximum for row in rows]
        values = columns[name]
        columns[f"{name}_{suffix}"] = [
            extremes.get(key, value) for extremes, value in zip(said, values, strict=True)
        ]
