"""All vitals of a run as plain columns, read once and added to while the run goes on.

In: `vitals.jsonl` and the 10 Hz rows of the last minute. Out: `VitalsTable`, arrays of equal length
by the names of the columns. Promises: a day at full sampling is read in a fraction of a second and
kept in a few megabytes per million numbers; a line that is no row costs itself alone; no more of a
file is read than MOST_BYTES.

`RunFolder.vitals` makes a record of every row and reads stretches of a long file. A chart of all of
it wants neither: each second counts, and only the numbers do.
"""

from __future__ import annotations

import math
import os
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from rerail.store import RunFolder, layout, open_regular
from rerail.vitals_columns import PROCESS_COLUMNS

MOST_BYTES = 256 << 20  # three days of the writer's budget
_BLOCK = 4 << 20
_NAN = math.nan
_RESIDENT = ("rss_anon_bytes", "rss_file_bytes", "rss_shared_bytes")
_ELSEWHERE = ("anon_elsewhere_bytes", "file_elsewhere_bytes", "shared_elsewhere_bytes")
_DRAWN = {
    "tree.rss_bytes",
    *(f"tree.{column.name}" for column in PROCESS_COLUMNS if column.chart),
}
_MOST_NAMES = 500  # no machine has so many
Sparse = dict[str, tuple["array[float]", "array[float]"]]  # by name, row numbers and values
_KNOWN = {column.name for column in PROCESS_COLUMNS}


class _Rows:
    """The rows of one file, as far as it was read."""

    def __init__(self) -> None:
        self.offset = 0
        self.identity: tuple[int, int] | None = None  # another file of the same name starts anew
        self.names: list[str] = []
        self.t = array("d")
        self.span = array("d")
        self.flat = array("d")  # row after row, as wide as `names`
        self.machine: Sparse = {}
        self.lowest: Sparse = {}
        self.highest: Sparse = {}

    def read(self, path: Path) -> bool:
        """What was added since the last time; whether there was anything."""
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                identity = (status.st_dev, status.st_ino)
                if self.identity not in (None, identity) or status.st_size < self.offset:
                    self.__init__()  # type: ignore[misc]
                self.identity = identity
                before = self.offset
                file.seek(self.offset)
                rest = b""
                while self.offset + len(rest) < MOST_BYTES and (block := file.read(_BLOCK)):
                    whole, newline, torn = (rest + block).rpartition(b"\n")
                    if newline:
                        self._take(whole.split(b"\n"))
                        self.offset += len(whole) + 1
                    rest = torn if newline else rest + block
                return self.offset != before
        except OSError:
            return False  # not there yet, or no file: nothing was observed

    def _take(self, lines: list[bytes]) -> None:
        """The inmost loop: a day has 86,400 rows, and somebody waits for the first chart."""
        loads, width = orjson.loads, len(self.names)
        add_t, add_span, add_row = self.t.append, self.span.append, self.flat.extend
        for line in lines:
            try:
                value = loads(line)
                if "process_fields" in value:
                    self._begin(value["process_fields"])
                    width = len(self.names)
                    continue
                tree = array("d", value["tree"])
                t, span = float(value["t"]), float(value.get("span", 0))
                highest, lowest = value.get("max"), value.get("min")
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                continue
            if len(tree) != width or not 0 <= t < 1e9:
                continue
            add_t(t)
            add_span(span)
            add_row(tree)
            if highest:
                _keep_extremes(self.highest, highest, len(self.t) - 1)
            if lowest:
                _keep_extremes(self.lowest, lowest, len(self.t) - 1)
            if b'"gpu' in line:
                _keep_gpus(self.machine, value.get("machine"), len(self.t) - 1)

    def _begin(self, names: Any) -> None:
        """The header. After a guardian took over there is a second one, of the same columns."""
        if isinstance(names, list) and (not self.names or not self.t):
            self.names = [name if name in _KNOWN else "" for name in map(str, names)]


def _keep_extremes(kept: Sparse, told: Any, row: int) -> None:
    """Of the columns that are drawn."""
    if type(told) is not dict:
        return
    for name in _DRAWN & told.keys():
        if type(told[name]) in (int, float):
            _keep(kept, name, told[name], row)


def _keep_gpus(kept: Sparse, told: Any, row: int) -> None:
    for name, value in told.items() if isinstance(told, dict) else ():
        if name.startswith("gpu") and type(value) in (int, float) and len(kept) < _MOST_NAMES:
            _keep(kept, name, value, row)


def _keep(kept: Sparse, name: str, value: float, row: int) -> None:
    pair = kept.get(name)
    if pair is None:
        pair = kept[name] = (array("d"), array("d"))
    pair[0].append(row)
    pair[1].append(value)


class VitalsTable:
    """The columns of a run, made when they are asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._history, self._old, self._recent = _Rows(), _Rows(), _Rows()
        self._lock = threading.RLock()
        self._columns: dict[str, array[float]] = {}

    @contextmanager
    def as_it_is_now(self) -> Iterator[None]:
        """Read what was added; until the block ends all columns are of one length."""
        with self._lock:
            self.refresh()
            yield

    def refresh(self) -> None:
        with self._lock:
            path = self._folder.path
            changed = [
                self._history.read(path / layout.VITALS),
                self._old.read(path / layout.VITALS_RECENT_OLD),
                self._recent.read(path / layout.VITALS_RECENT),
            ]
            if any(changed):
                self._columns = {}

    @property
    def t(self) -> array[float]:
        return self.column("t")

    def column(self, name: str) -> array[float]:
        """A quantity of the tree (`rss_bytes`) or of a GPU (`machine_gpu0_used_bytes`)."""
        with self._lock:
            if name not in self._columns:
                joined = array("d")
                for rows, end in self._parts():
                    joined.extend(_column(rows, name)[:end])
                self._columns[name] = joined
            return self._columns[name]

    def extreme(self, name: str, kind: str) -> array[float]:
        """The least (`min`) or the most (`max`) within the second that a row stands for."""
        key = f"{name} {kind}"
        values = self.column(name)
        with self._lock:
            if key not in self._columns:
                joined = array("d", values)
                at = 0
                for rows, end in self._parts():
                    kept = (rows.lowest if kind == "min" else rows.highest).get(f"tree.{name}")
                    for row, value in zip(*(kept or ((), ())), strict=True):
                        if row < end:
                            joined[at + int(row)] = value
                    at += end
                self._columns[key] = joined
            return self._columns[key]

    def machine_names(self) -> list[str]:
        with self._lock:
            return sorted({name for rows, _ in self._parts() for name in rows.machine})

    def _parts(self) -> Iterator[tuple[_Rows, int]]:
        """The thinned past up to where the 10 Hz rows begin, then those: as the store reads it."""
        recent = [rows for rows in (self._old, self._recent) if rows.t]
        begin = min((rows.t[0] for rows in recent), default=math.inf)
        end = len(self._history.t)
        while end and self._history.t[end - 1] >= begin:
            end -= 1
        yield self._history, end
        for rows in recent:
            yield rows, len(rows.t)


def _column(rows: _Rows, name: str) -> array[float]:
    if name == "t":
        return rows.t
    if name.startswith("machine_"):
        return _carried_on(rows.machine.get(name.removeprefix("machine_")), len(rows.t))
    if name == "rss_bytes":
        return _sum_of(rows, _RESIDENT, _ELSEWHERE)
    if name == "anon_bytes":
        return _sum_of(rows, _RESIDENT[:1], _ELSEWHERE[:1])
    if name == "shared_bytes":
        return _sum_of(rows, _RESIDENT[2:], _ELSEWHERE[2:])
    if name == "cores":
        return _cores(rows.t, _column(rows, "cpu_seconds"))
    if name not in rows.names:
        return array("d", [_NAN]) * len(rows.t)
    return rows.flat[rows.names.index(name) :: len(rows.names)]


def _sum_of(rows: _Rows, plus: tuple[str, ...], minus: tuple[str, ...]) -> array[float]:
    added = [_column(rows, name) for name in plus if name in rows.names]
    taken = [values for name in minus if name in rows.names and any(values := _column(rows, name))]
    if not added:
        return array("d", [_NAN]) * len(rows.t)
    total = map(sum, zip(*added, strict=True))
    if not taken:
        return array("d", total)
    return array(
        "d", (a - b for a, b in zip(total, map(sum, zip(*taken, strict=True)), strict=True))
    )


def _carried_on(kept: tuple[array[float], array[float]] | None, length: int) -> array[float]:
    """A machine value that a row leaves out is as in the row before."""
    found = array("d")
    value = _NAN
    for row, following in zip(*(kept or ((), ())), strict=True):
        found.extend(array("d", [value]) * (int(row) - len(found)))
        value = following
    found.extend(array("d", [value]) * (length - len(found)))
    return found


def _cores(t: array[float], cpu_seconds: array[float]) -> array[float]:
    """Cores in use, over at least a second so that the 10 ms ticks do not show."""
    found = array("d", [_NAN]) * len(t)
    last = 0
    for at in range(1, len(t)):
        seconds = t[at] - t[last]
        if seconds >= 0.95:
            found[at] = max(0.0, cpu_seconds[at] - cpu_seconds[last]) / seconds
            last = at
        else:
            found[at] = found[last]
    return found
