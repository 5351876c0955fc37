"""A chart as a table, for whoever cannot see it and for Markdown."""

from __future__ import annotations

from rerail.report.document import Chart, Table
from rerail.wording import bytes_in_words

MOST_ROWS = 12


def chart_table(chart: Chart, most: int = MOST_ROWS) -> Table:
    """Some moments of a chart, evenly spread, first and last among them."""
    count = len(chart.x)
    if count <= most:
        places = list(range(count))
    else:
        places = sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
    rows = [
        [
            f"{chart.x[i]:.1f}",
            *(_value(series.values[i], chart.unit) for series in chart.series),
        ]
        for i in places
    ]
    columns = ["seconds", *(series.label for series in chart.series)]
    return Table(columns, rows, f"{chart.title} as numbers", list(range(len(columns))), True)


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "not finite"
    if unit == "bytes":
        return bytes_in_words(value)
    return f"{value:.0f}" if unit == "count" else f"{value:.4g}"
