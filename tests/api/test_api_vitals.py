"""Vitals as columns: one number per cell, one row per sample."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rerail.records import ProcessRecord, ProcessVitals, VitalsRow
from rerail.store import process_columns, tree_columns

MACHINE = st.dictionaries(st.sampled_from(["available_bytes", "load_1m"]), st.floats(0, 1e12))
VITALS = st.builds(ProcessVitals, rss_anon_bytes=st.integers(0, 2**40), threads=st.integers(0, 99))
ROWS = st.lists(
    st.builds(
        VitalsRow,
        t_seconds=st.integers(0, 50).map(float),
        span_seconds=st.sampled_from([0.0, 1.0]),
        tree=VITALS,
        process_count=st.integers(0, 9),
        processes=st.dictionaries(st.sampled_from(["7-1", "8-2", "odd"]), VITALS),
        machine=MACHINE,
    ),
    max_size=8,
).map(lambda rows: sorted(rows, key=lambda row: row.t_seconds))


@given(ROWS, st.booleans())
def test_every_cell_is_one_number(rows: list[VitalsRow], with_extremes: bool) -> None:
    columns = tree_columns(rows, with_extremes=with_extremes)
    assert {len(column) for column in columns.values()} == {len({row.t_seconds for row in rows})}
    for column in columns.values():
        assert np.asarray(column).ndim == 1 and np.asarray(column).dtype.kind in "if"
    assert list(columns["t_seconds"]) == sorted(set(columns["t_seconds"]))


@given(ROWS)
def test_the_long_form_has_what_was_sampled(rows: list[VitalsRow]) -> None:
    process = ProcessRecord(7, 1, None, "main", "python", [], 0.0, rank=3)
    columns = process_columns(rows, [process])
    last = {row.t_seconds: row for row in rows}
    assert len(columns["pid"]) == sum(len(row.processes) for row in last.values())
    for i, key in enumerate(columns["process"]):
        assert columns["rss_bytes"][i] == last[columns["t_seconds"][i]].processes[key].rss_bytes
        assert (columns["role"][i], columns["rank"][i] == 3) == (
            ("main", True) if key == "7-1" else ("", False)
        )


def test_what_a_sample_leaves_out_is_as_before_and_nan_before_the_first() -> None:
    def row(t: float, machine: dict[str, float], most: dict[str, float] | None = None) -> VitalsRow:
        return VitalsRow(t, 1.0, ProcessVitals(5), 1, {}, machine, {}, most or {})

    rows = [row(0, {}), row(1, {"load_1m": 2.0}), row(2, {}, {"tree.rss_bytes": 9.0})]
    columns = tree_columns(rows, with_extremes=True)
    assert math.isnan(columns["machine_load_1m"][0])
    assert columns["machine_load_1m"][1:] == [2.0, 2.0]
    assert columns["rss_bytes"] == columns["rss_bytes_min"] == [5, 5, 5]
    assert columns["rss_bytes_max"] == [5, 5, 9.0]
