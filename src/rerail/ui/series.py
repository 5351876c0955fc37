"""The charts of a run's page: any stretch of it, thinned to what a screen can show.

In: the vitals as columns, what the processes told of their steps, a stretch of time and a number of
points. Out: plain JSON values that static/charts.js draws. Promises: of each bucket the row with
the lowest and the row with the highest value stay, and of a second the highest that was seen in it,
so that no spike disappears at any zoom.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rerail.live import memory_of
from rerail.report import training_charts
from rerail.store import RunFolder
from rerail.ui.vitals_table import VitalsTable
from rerail.vitals_columns import PROCESS_COLUMNS
from rerail.wording import bytes_in_words, seconds_in_words

Column = Mapping[int, float] | Sequence[float]
# A limit further above the curve than this would press it flat against the axis.
_LIMIT_IN_VIEW = 3.0
_END_BYTES = 64 << 10  # of the vitals, for the limit that holds now


@dataclass(frozen=True)
class Request:
    """Which charts (empty: all), from when to when, and how many points of each."""

    names: tuple[str, ...] = ()
    start: float = 0.0
    end: float = math.inf
    points: int = 800
    by_step: bool = False  # steps instead of seconds, where the processes told of their steps


def charts_of(folder: RunFolder, table: VitalsTable, request: Request) -> dict[str, Any]:
    with table.as_it_is_now():
        return _charts_of(folder, table, request)


def _charts_of(folder: RunFolder, table: VitalsTable, request: Request) -> dict[str, Any]:
    t = table.t
    told, marks = training_charts(folder)
    end = max([t[-1] if t else 0.0, *(mark.t_seconds for mark in marks)])
    makers: dict[str, Callable[[], dict[str, Any] | None]] = {
        "memory": partial(_memory, folder, table, request),
        **{
            column.name: partial(
                _line, table, request, column.name, column.name, column.chart, column.unit
            )
            for column in PROCESS_COLUMNS
            if column.chart
        },
        "cpu": partial(_line, table, request, "cpu", "cores", "CPU, cores in use", "cores"),
        **_gpu_makers(table, request),
        **{chart.name: partial(_told, chart, folder, request) for chart in told},
    }
    wanted = request.names or tuple(makers)
    found = [makers[name]() for name in wanted if name in makers]
    return {
        "schema": 1,
        "run": folder.id,
        "names": list(makers),
        "span": [0.0, max(math.ceil(end * 100) / 100, 0.01)],
        "marks": [{"t": round(mark.t_seconds, 2), "label": mark.label} for mark in marks],
        "charts": [chart for chart in found if chart is not None],
    }


def _gpu_makers(
    table: VitalsTable, request: Request
) -> dict[str, Callable[[], dict[str, Any] | None]]:
    makers: dict[str, Callable[[], dict[str, Any] | None]] = {}
    for name in table.machine_names():
        number, _, what = name.removeprefix("gpu").partition("_")
        if not number.isdecimal() or what not in ("used_bytes", "utilisation"):
            continue
        own_name = name.replace("_", "-")
        title = f"GPU {number} {'memory' if what == 'used_bytes' else 'in use'}"
        unit = "bytes" if what == "used_bytes" else "number"
        makers[own_name] = partial(_line, table, request, own_name, f"machine_{name}", title, unit)
    return makers


def _stretch(t: Sequence[float], request: Request) -> tuple[int, int]:
    """Rows to draw, with one on either side so that a line reaches the edge."""
    first = max(0, bisect_left(t, request.start) - 1)
    return first, min(len(t), bisect_right(t, request.end) + 1)


def kept_rows(low: array[float], high: array[float], first: int, last: int, most: int) -> list[int]:
    """At most `most` rows of a stretch: of each bucket the lowest and the highest."""
    count = last - first
    if count <= most:
        return list(range(first, last))
    buckets = max(1, (most - 2) // 2)
    keep = {first, last - 1}
    for bucket in range(buckets):
        begin = first + bucket * count // buckets
        end = first + (bucket + 1) * count // buckets
        for values, choose in ((low[begin:end], min), (high[begin:end], max)):
            chosen = choose(values)
            if chosen == chosen:  # no NaN, which is in no place that could be asked for
                keep.add(begin + values.index(chosen))
            else:
                keep.update(_chosen_of_observed(values, choose, begin))
    return sorted(keep)


def _chosen_of_observed(
    values: array[float], choose: Callable[..., float], begin: int
) -> list[int]:
    """The same where some of them were not observed."""
    observed = [value for value in values if value == value]
    return [begin + values.index(choose(observed))] if observed else []


def _line(
    table: VitalsTable, request: Request, name: str, column: str, title: str, unit: str
) -> dict[str, Any] | None:
    t, values = table.t, table.column(column)
    high, low = table.extreme(column, "max"), table.extreme(column, "min")
    if not any(value > 0 for value in high):
        return None
    rows = kept_rows(low, high, *_stretch(t, request), request.points)
    unit = unit if unit in ("bytes", "count", "seconds", "cores") else "number"
    series = [_series(title.lower(), values, rows, "line", 0)]
    if any(high[row] > values[row] for row in rows):
        series.append(_series("highest", high, rows, "peak", 3))
    return _chart(name, title, unit, t, rows, series, _in_words(t, values, high, unit))


def _in_words(t: Sequence[float], values: array[float], high: array[float], unit: str) -> str:
    """What the whole curve does, for whoever cannot see it."""
    highest = max(value for value in high if value == value)
    observed = [value for value in values if value == value] or [highest]
    words = {"bytes": bytes_in_words, "seconds": seconds_in_words}.get(unit, "{:.3g}".format)
    return (
        f"From {words(observed[0])} to {words(observed[-1])}, highest {words(highest)}"
        f" at {seconds_in_words(t[high.index(highest)])}."
    )


def _memory(folder: RunFolder, table: VitalsTable, request: Request) -> dict[str, Any] | None:
    t = table.t
    rss, high = table.column("rss_bytes"), table.extreme("rss_bytes", "max")
    peak = max((value for value in high if value == value), default=0.0)
    if not peak > 0:
        return None  # these vitals have no columns of memory
    anon, shared = table.column("anon_bytes"), table.column("shared_bytes")
    rows = kept_rows(table.extreme("rss_bytes", "min"), high, *_stretch(t, request), request.points)
    series = [_series("file pages", rss, rows, "area", 2)]
    if any(shared):
        held = {row: anon[row] + shared[row] for row in rows}
        series.append(_series("shared", held, rows, "area", 1))
    series.append(_series("anonymous", anon, rows, "area", 0))
    if any(high[row] != rss[row] for row in rows):
        series.append(_series("highest", high, rows, "peak", 3))
    summary = f"Highest {bytes_in_words(peak)} at {seconds_in_words(t[high.index(peak)])}."
    now = memory_of(list(folder.vitals(_END_BYTES)), folder.recent_vitals()[-20:], False)
    if now is not None and now.limit_bytes and now.used_bytes is not None:
        name = "the cgroup's" if now.limit_name == "cgroup" else "the machine's"
        summary = f"{summary[:-1]}; {name} limit is {bytes_in_words(now.limit_bytes)}."
        if now.limit_bytes <= _LIMIT_IN_VIEW * max(peak, now.used_bytes * 0.5):
            series.append(
                {
                    "label": "limit",
                    "kind": "limit",
                    "tone": 4,
                    "values": [now.limit_bytes] * len(rows),
                }
            )
    return _chart("memory", "Memory of all processes", "bytes", t, rows, series, summary)


def _told(chart: Any, folder: RunFolder, request: Request) -> dict[str, Any]:
    """Step time and loss of the whole run, as the report draws them."""
    x = list(chart.x)
    if request.by_step:
        steps = _steps_at(folder)
        x = [steps.get(round(t, 3), None) for t in x]
    return {
        "name": chart.name,
        "title": chart.title,
        "unit": chart.unit,
        "summary": chart.summary,
        "log": chart.is_logarithmic,
        "x": x,
        "series": [
            {"label": s.label, "kind": s.kind, "tone": s.tone, "values": s.values}
            for s in chart.series
        ],
    }


def _steps_at(folder: RunFolder) -> dict[float, int]:
    found = {round(row.t_seconds, 3): row.step for row in folder.step_history()}
    told = (point for box in folder.boxes() for point in box.history)
    return {**found, **{round(point.t_seconds, 3): point.step for point in told}}


def _chart(
    name: str,
    title: str,
    unit: str,
    t: array[float],
    rows: Sequence[int],
    series: list[dict[str, Any]],
    summary: str,
) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "summary": summary,
        "log": False,
        "x": [round(t[row], 2) for row in rows],
        "series": series,
    }


def _series(
    label: str, values: Column, rows: Sequence[int], kind: str, tone: int
) -> dict[str, Any]:
    return {"label": label, "kind": kind, "tone": tone, "values": _numbers(values, rows)}


def _numbers(values: Column, rows: Sequence[int]) -> list[float | None]:
    """Whole numbers without their ".0": half the size for bytes and counts."""
    found: list[float | None] = []
    for row in rows:
        value = values[row]
        if not math.isfinite(value):
            found.append(None)
        else:
            found.append(int(value) if value.is_integer() else round(value, 4))
    return found
