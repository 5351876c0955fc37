"""A chart as a table, for whoever cannot see it and for Markdown; tables without their zeros."""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.report.document import Block, Chart, Table
from rerail.wording import bytes_in_words

MOST_ROWS = 12


_ZERO = re.compile(r"-?0(?:\.0+)?(?: ?[%A-Za-z/]+)?|")


def without_zero_rows(table: Table, ignored: tuple[int, ...] = ()) -> list[Block]:
    """The table, and behind a fold its rows in which every number is zero.

    `ignored` names numeric columns that say nothing here, such as a count of members.
    """
    asked = [column for column in table.numeric if column not in ignored]
    is_zero = [all(_ZERO.fullmatch(row[column]) for column in asked) for row in table.rows]
    if not asked or not any(is_zero) or all(is_zero):
        return [table]
    kept = [row for row, zero in zip(table.rows, is_zero, strict=True) if not zero]
    zeros = [row for row, zero in zip(table.rows, is_zero, strict=True) if zero]
    caption = f"{len(zeros)} more with nothing but zeros"
    return [
        replace(table, rows=kept),
        replace(table, rows=zeros, caption=caption, is_folded=True),
    ]


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
            *(_value(own_part(chart, at, i), chart.unit) for at in range(len(chart.series))),
        ]
        for i in places
    ]
    columns = ["seconds", *(series.label for series in chart.series)]
    return Table(columns, rows, f"{chart.title} as numbers", list(range(len(columns))), True)


def own_part(chart: Chart, at: int, i: int) -> float | None:
    """Areas lie on top of each other: each says its own part, not the height that it reaches."""
    value, rest = chart.series[at].values[i], chart.series[at + 1 : at + 2]
    if value is None or not rest or chart.series[at].kind != "area" or rest[0].kind != "area":
        return value
    return value - (rest[0].values[i] or 0.0)


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "not finite"
    if unit == "bytes":
        return bytes_in_words(value)
    return f"{value:.0f}" if unit == "count" else f"{value:.4g}"
