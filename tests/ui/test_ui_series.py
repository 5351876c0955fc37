"""The charts' numbers: no spike is lost at any zoom, and only what was added is read again."""

from __future__ import annotations

import json
import math
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_server import keep_recording

from rerail.records import Outcome, ProcessVitals
from rerail.store import RunFolder, RunWriter, Store
from rerail.ui.series import Request, charts_of, kept_rows
from rerail.ui.vitals_table import VitalsTable

MIB = 1 << 20
FIELDS = list(ProcessVitals.__dataclass_fields__)


def a_run(home: Path) -> RunWriter:
    writer = Store(home).create_run(["python", "train.py"], "/data", {}, False)
    writer.append("vitals.jsonl", {"schema": 1, "process_fields": FIELDS})
    return writer


def add_row(writer: RunWriter, t: float, anon: int, highest: int | None = None) -> None:
    values = list(vars(ProcessVitals(rss_anon_bytes=anon, threads=2, cpu_seconds=t)).values())
    row = {"t": t, "span": 1.0, "n": 1, "tree": values, "procs": {}, "machine": {}, "min": {}}
    row["max"] = {} if highest is None else {"tree.rss_bytes": highest}
    writer.append("vitals.jsonl", row)


@given(
    st.lists(st.floats(-1e12, 1e12) | st.just(math.nan), min_size=1, max_size=400),
    st.integers(4, 60),
    st.data(),
)
def test_the_highest_and_the_lowest_of_any_stretch_stay(
    values: list[float], most: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    last = data.draw(st.integers(first + 1, len(values)))
    column = array("d", values)
    rows = kept_rows(column, column, first, last, most)
    assert len(rows) <= most and rows == sorted(set(rows))
    assert first <= rows[0] and rows[-1] < last
    observed = [value for value in values[first:last] if value == value]
    kept = [values[row] for row in rows if values[row] == values[row]]
    if observed:
        assert (min(kept), max(kept)) == (min(observed), max(observed))


def test_a_spike_of_one_second_is_in_the_chart_of_a_day(tmp_path: Path) -> None:
    writer = a_run(tmp_path)
    for second in range(5000):
        add_row(writer, second, 100 * MIB, 900 * MIB if second == 3210 else None)
    writer.finish(Outcome("ok", "well"), 5000.0)
    folder = RunFolder(writer.path)
    for request in (Request(points=50), Request(start=3000, end=4000, points=20)):
        (memory,) = charts_of(folder, VitalsTable(folder), Request(("memory",), *_of(request)))[
            "charts"
        ]
        (highest,) = [s for s in memory["series"] if s["label"] == "highest"]
        assert len(memory["x"]) <= request.points
        assert highest["values"][memory["x"].index(3210)] == 900 * MIB
    assert "Highest 900 MiB at 54 min" in memory["summary"]


def _of(request: Request) -> tuple[float, float, int]:
    return request.start, request.end, request.points


def test_what_was_added_is_read_and_nothing_twice(tmp_path: Path) -> None:
    writer = a_run(tmp_path)
    table = VitalsTable(RunFolder(writer.path))
    table.refresh()
    assert list(table.t) == []
    for second in range(10):
        add_row(writer, second, second * MIB)
        table.refresh()
        assert list(table.t) == list(range(second + 1))
    assert list(table.column("rss_bytes")) == [second * MIB for second in range(10)]
    writer.finish(Outcome("ok", "well"), 10.0)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"t": 1}',
        b'{"t": "x", "tree": []}',
        b'{"t": 1e400, "tree": [1]}',
        b'{"t": NaN, "tree": []}',
        b'{"t": -5, "tree": [' + b",".join([b"1"] * len(FIELDS)) + b"]}",
        b'{"t": 3, "tree": ["a", {}, null]}',
        b'{"t": 3, "tree": [' + b"1," * 5000 + b"1]}",
        b'{"t": 3, "tree": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"process_fields": 7}',
        b"\xff\xfe\x00",
    ],
)
def test_a_line_that_is_no_row_costs_itself_alone(tmp_path: Path, line: bytes) -> None:
    writer = a_run(tmp_path)
    add_row(writer, 1.0, MIB)
    with (writer.path / "vitals.jsonl").open("ab") as file:
        file.write(line + b"\n")
    add_row(writer, 2.0, 2 * MIB)
    table = VitalsTable(RunFolder(writer.path))
    table.refresh()
    assert list(table.t) == [1.0, 2.0]
    assert list(table.column("rss_bytes")) == [MIB, 2 * MIB]
    writer.finish(Outcome("ok", "well"), 2.0)


def test_a_pipe_in_place_of_the_vitals_is_not_waited_for(tmp_path: Path) -> None:
    import os

    writer = a_run(tmp_path)
    writer.finish(Outcome("ok", "well"), 2.0)
    (writer.path / "vitals.jsonl").unlink()
    os.mkfifo(writer.path / "vitals.jsonl")
    table = VitalsTable(RunFolder(writer.path))
    table.refresh()
    assert list(table.t) == []


@pytest.mark.parametrize("name", ["healthy", "two-ranks", "oom-kill"])
def test_the_columns_are_those_of_the_store(tmp_path: Path, name: str) -> None:
    """The quick way and the careful way through a real recording say the same."""
    from rerail.store import tree_columns

    folder = RunFolder(keep_recording(tmp_path, name, "20260101-000000-0001"))
    table = VitalsTable(folder)
    table.refresh()
    said = tree_columns(folder.merged_vitals(), with_extremes=True)
    quick = dict(zip(table.t, table.column("rss_bytes"), strict=True))
    assert quick == dict(zip(said["t_seconds"], said["rss_bytes"], strict=True))
    highest = dict(zip(table.t, table.extreme("rss_bytes", "max"), strict=True))
    careful = dict(zip(said["t_seconds"], said["rss_bytes_max"], strict=True))
    assert {t: v for t, v in highest.items() if v != careful[t]} == {}
    json.dumps(charts_of(folder, table, Request()), allow_nan=False)


@pytest.mark.parametrize("highest", [{}, {"tree.rss_bytes": 5 * MIB, "tree.fds": 3}])
def test_vitals_without_memory_still_have_the_other_charts(
    tmp_path: Path, highest: dict[str, int]
) -> None:
    writer = Store(tmp_path).create_run(["python", "train.py"], "/data", {}, False)
    writer.append("vitals.jsonl", {"schema": 1, "process_fields": ["threads"]})
    for t in range(5):
        row = {"t": float(t), "span": 1.0, "n": 1, "tree": [2], "procs": {}, "machine": {}}
        writer.append("vitals.jsonl", {**row, "min": {}, "max": highest})
    folder = RunFolder(writer.path)
    found = charts_of(folder, VitalsTable(folder), Request())
    assert "threads" in [chart["name"] for chart in found["charts"]]
