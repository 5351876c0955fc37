"""Reading vitals back: a header that names the columns, then one row per line.

In: a vitals file of docs/run-folder.md. Out: records.VitalsRow. The columns of a process are
positional, because a row with forty processes is written ten times a second; the header says what
they are, so that another version may have more. A row that is not one costs itself alone; what is
no number, or no plausible one, counts as not observed. Once PROCESS_ENTRIES are read, rows tell of
the tree and the machine alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rerail.bounded import Time
from rerail.records import ProcessVitals, VitalsRow
from rerail.store import layout
from rerail.store.bounds import PROCESS_ENTRIES
from rerail.store.codec import decoder_of
from rerail.store.jsonlines import check_schema, read_objects
from rerail.vitals_columns import PROCESS_COLUMNS

_TIME = decoder_of(Time)

Column = tuple[str, type[int] | type[float]]
_KINDS: dict[str, type[int] | type[float]] = {
    column.name: float if column.is_fraction else int for column in PROCESS_COLUMNS
}


def read_rows(path: Path, last_bytes: int | None = None) -> Iterator[VitalsRow]:
    """The rows of one vitals file; none if it is not there or its header was never written."""
    return VitalsDecoder(path).rows(read_objects(path, last_bytes))


class VitalsDecoder:
    """Makes rows of objects, which may come in several goes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[Column | None] | None = None

    def rows(self, values: Iterable[dict[str, Any]]) -> Iterator[VitalsRow]:
        left = PROCESS_ENTRIES
        for value in values:
            if "process_fields" in value:  # again after a guardian took over
                check_schema(self._path, value.get("schema"), layout.SCHEMA)
                names = value["process_fields"]
                self._columns = list(map(_column, names)) if isinstance(names, list) else None
            elif self._columns is not None:
                if left <= 0:
                    value.pop("procs", None)
                row = _decode_row(value, self._columns)
                if row is not None:
                    left -= len(row.processes)
                    yield row


def _column(name: Any) -> Column | None:
    """A column that this version knows; None for any other."""
    kind = _KINDS.get(name) if isinstance(name, str) else None
    return None if kind is None else (name, kind)


def _decode_row(value: dict[str, Any], columns: list[Column | None]) -> VitalsRow | None:
    try:
        return VitalsRow(
            t_seconds=_TIME(value["t"], "t"),
            span_seconds=_TIME(value.get("span", 0.0), "span"),
            tree=_decode_vitals(value["tree"], columns),
            process_count=max(0, int(value.get("n", 0))),
            processes={
                key: _decode_vitals(values, columns)
                for key, values in value.get("procs", {}).items()
            },
            machine=_numbers(value.get("machine", {})),
            minimum=_numbers(value.get("min", {})),
            maximum=_numbers(value.get("max", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _decode_vitals(values: list[Any], columns: list[Column | None]) -> ProcessVitals:
    # The parser gives finite numbers alone, so their type says enough.
    known: dict[str, Any] = {
        column[0]: column[1](value)
        for column, value in zip(columns, values, strict=False)
        if column is not None and type(value) in (int, float)
    }
    return ProcessVitals(**known)


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if type(value) in (int, float)}
