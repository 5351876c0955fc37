from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.report.charts import thin, timeline
from rerail.report.document import Chart, Series
from rerail.report.numbers import chart_table

values = st.lists(st.floats(-1e9, 1e9, allow_nan=False), min_size=1, max_size=3000)


@given(values, st.integers(4, 200))
def test_thinning_keeps_order_ends_and_extremes(points, most):
    kept = thin(list(enumerate(points)), lambda point: point[1], most)
    assert len(kept) <= max(most, 4) + 2 or len(kept) == len(points)
    places = [i for i, _ in kept]
    assert places == sorted(set(places))
    assert places[0] == 0 and places[-1] == len(points) - 1
    ys = [y for _, y in kept]
    assert max(ys) == max(points) and min(ys) == min(points)


def test_charts_of_a_written_run(tmp_path):
    from report_runs import write_run

    from rerail.evidence.run.material import read_material

    folder = write_run(tmp_path / ".rerail", rows=5000)
    charts = {chart.name: chart for chart in timeline(read_material(folder))}
    assert {"memory", "threads", "fds"} <= set(charts)
    memory = charts["memory"]
    assert len(memory.x) <= 602 and all(len(s.values) == len(memory.x) for s in memory.series)
    assert memory.marks[-1].label == "SIGSEGV"
    assert "Highest" in memory.summary
    table = chart_table(memory)
    assert len(table.rows) <= 12 and table.rows[-1][0] == f"{memory.x[-1]:.1f}"


def test_the_numbers_of_stacked_areas_are_their_own_parts():
    stacked = [
        Series("file pages", [7.0], "area"),
        Series("shared", [5.0], "area"),
        Series("anonymous", [3.0], "area"),
        Series("limit", [9.0], "limit"),
    ]
    table = chart_table(Chart("memory", "Memory", "count", [0.0], stacked, "words"))
    assert table.rows == [["0.0", "2", "2", "3", "9"]]
