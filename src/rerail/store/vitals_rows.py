"""How vitals are written down: a header that names the columns, then one row per line.

In: records.VitalsRow. Out: the lines of docs/run-folder.md, and back. The columns of a process are
positional because a row with forty processes is written ten times a second; the header says what
they are, so that a later version may add one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerail.records import ProcessVitals, VitalsRow
from rerail.store import layout
from rerail.store.jsonlines import check_schema, read_objects

PROCESS_FIELDS = tuple(field.name for field in dataclasses.fields(ProcessVitals))
_KINDS: tuple[type[int] | type[float], ...] = tuple(
    float if isinstance(field.default, float) else int
    for field in dataclasses.fields(ProcessVitals)
)


def header() -> dict[str, Any]:
    """The first line of a vitals file."""
    return {"schema": layout.SCHEMA, "process_fields": list(PROCESS_FIELDS)}


def encode_row(row: VitalsRow) -> dict[str, Any]:
    return {
        "t": round(row.t_seconds, 3),
        "span": row.span_seconds,
        "n": row.process_count,
        "tree": _columns(row.tree),
        "procs": {key: _columns(vitals) for key, vitals in row.processes.items()},
        "machine": row.machine,
        "min": row.minimum,
        "max": row.maximum,
    }


def read_rows(path: Path) -> Iterator[VitalsRow]:
    """The rows of one vitals file; none if it is not there or its header was never written."""
    fields: list[str] | None = None
    for value in read_objects(path):
        if "process_fields" in value:  # again after a guardian took over
            check_schema(path, value.get("schema"), layout.SCHEMA)
            names = value["process_fields"]
            fields = [str(name) for name in names] if isinstance(names, list) else None
        elif fields is not None:
            row = _decode_row(value, fields)
            if row is not None:
                yield row


def _columns(vitals: ProcessVitals) -> list[Any]:
    return [
        round(value, 3) if isinstance(value, float) else value
        for value in (getattr(vitals, name) for name in PROCESS_FIELDS)
    ]


def _decode_row(value: dict[str, Any], fields: list[str]) -> VitalsRow | None:
    """None for a row that is not one: it costs itself alone."""
    try:
        return VitalsRow(
            t_seconds=float(value["t"]),
            span_seconds=float(value.get("span", 0.0)),
            tree=_decode_vitals(value["tree"], fields),
            process_count=int(value.get("n", 0)),
            processes={
                str(key): _decode_vitals(columns, fields)
                for key, columns in value.get("procs", {}).items()
            },
            machine=_numbers(value.get("machine", {})),
            minimum=_numbers(value.get("min", {})),
            maximum=_numbers(value.get("max", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _decode_vitals(columns: list[Any], fields: list[str]) -> ProcessVitals:
    found = dict(zip(fields, columns, strict=False))
    known: dict[str, Any] = {
        name: kind(found[name])
        for name, kind in zip(PROCESS_FIELDS, _KINDS, strict=True)
        if found.get(name) is not None
    }
    return ProcessVitals(**known)


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
