"""Reading vitals back: a header that names the columns, then one row per line.

In: a vitals file of docs/run-folder.md. Out: records.VitalsRow. The columns of a process are
positional, because a row with forty processes is written ten times a second; the header says what
they are, so that another version may have more. A row that is not one costs itself alone; what is
no number, or no plausible one, counts as not observed. At most VITALS_ROWS rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerail.records import ProcessVitals, VitalsRow
from rerail.store import layout
from rerail.store.bounds import VITALS_ROWS
from rerail.store.jsonlines import check_schema, read_objects
from rerail.store.plausible import is_number, is_time
from rerail.vitals_columns import PROCESS_COLUMNS


def read_rows(path: Path, last_bytes: int | None = None) -> Iterator[VitalsRow]:
    """The rows of one vitals file; none if it is not there or its header was never written."""
    fields: list[str] | None = None
    count = 0
    for value in read_objects(path, last_bytes):
        if "process_fields" in value:  # again after a guardian took over
            check_schema(path, value.get("schema"), layout.SCHEMA)
            names = value["process_fields"]
            fields = [str(name) for name in names] if isinstance(names, list) else None
        elif fields is not None:
            row = _decode_row(value, fields)
            if row is not None:
                yield row
                count += 1
            if count == VITALS_ROWS:
                return


def _decode_row(value: dict[str, Any], fields: list[str]) -> VitalsRow | None:
    try:
        return VitalsRow(
            t_seconds=_time(value["t"]),
            span_seconds=_time(value.get("span", 0.0)),
            tree=_decode_vitals(value["tree"], fields),
            process_count=max(0, int(value.get("n", 0))),
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
        column.name: (float if column.is_fraction else int)(found[column.name])
        for column in PROCESS_COLUMNS
        if is_number(found.get(column.name))
    }
    return ProcessVitals(**known)


def _time(value: Any) -> float:
    if not is_time(value):
        raise ValueError(value)
    return float(value)


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if is_number(value)}
