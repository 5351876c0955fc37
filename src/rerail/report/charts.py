"""The timeline: memory, threads, descriptors, CPU, step time and loss, with the death marked.

In: a recorded run. Out: `Chart` blocks, thinned to what a screen can show. Thinning keeps each
bucket's lowest and highest row, so that no spike disappears, and the first and the last row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from rerail.evidence import RecordedRun, limit_uses, telling_stall
from rerail.records import StepPoint, VitalsRow
from rerail.report.document import Chart, Mark, Series
from rerail.vitals_columns import PROCESS_COLUMNS, Column
from rerail.wording import bytes_in_words, seconds_in_words

MOST_POINTS = 600
# A limit further above the curve than this would press it flat against the axis.
_LIMIT_IN_VIEW = 3.0
_FEWEST_LOSSES = 3

T = TypeVar("T")


def timeline(run: RecordedRun) -> list[Chart]:
    marks = marks_of(run)
    found = [
        _memory(run, marks),
        *(_column(run, marks, column) for column in PROCESS_COLUMNS if column.chart),
        _cpu(run, marks),
        _step_time(run, marks),
        _loss(run, marks),
    ]
    return [chart for chart in found if chart is not None]


def thin(rows: Sequence[T], value: Callable[[T], float], most: int = MOST_POINTS) -> list[T]:
    """At most `most` rows in their order: of each bucket the lowest and the highest."""
    if len(rows) <= most:
        return list(rows)
    buckets = max(1, (most - 2) // 2)
    keep = {0, len(rows) - 1}
    for bucket in range(buckets):
        first, last = bucket * len(rows) // buckets, (bucket + 1) * len(rows) // buckets
        if first < last:
            keep.add(min(range(first, last), key=lambda i: value(rows[i])))
            keep.add(max(range(first, last), key=lambda i: value(rows[i])))
    return [rows[i] for i in sorted(keep)]


def marks_of(run: RecordedRun) -> list[Mark]:
    """Moments worth a line in every chart: the death, other killed processes, standing still."""
    stall = telling_stall(run)
    found = [Mark(stall.t_seconds, "no progress")] if stall is not None else []
    main = run.main
    outcome = run.info.outcome
    died = outcome is not None and outcome.kind != "ok"
    for process in run.processes:
        if process.signal is None or process.ended_t_seconds is None:
            continue
        if main is not None and process.key == main.key:
            continue
        if process.signal not in ("SIGTERM", "SIGHUP", "SIGINT", "SIGPIPE"):
            found.append(Mark(process.ended_t_seconds, f"{process.role}: {process.signal}"))
    if main is not None and main.ended_t_seconds is not None:
        label = main.signal or (f"exit {main.exit_code}" if main.exit_code is not None else "end")
        if run.was_stopped_for_a_stall:
            label = "stopped by rerail"
        found.append(Mark(main.ended_t_seconds, label if died else "end"))
    return sorted(found, key=lambda mark: mark.t_seconds)[-6:]


def _memory(run: RecordedRun, marks: list[Mark]) -> Chart | None:
    if not run.vitals:
        return None
    rows = thin(run.vitals, _highest_rss)
    peak_row = max(rows, key=_highest_rss)
    peak = _highest_rss(peak_row)
    series = [
        Series("file pages", [float(row.tree.rss_bytes) for row in rows], "area", 2),
        Series(
            "shared",
            [float(row.tree.anon_bytes + row.tree.shared_bytes) for row in rows],
            "area",
            1,
        ),
        Series("anonymous", [float(row.tree.anon_bytes) for row in rows], "area", 0),
    ]
    if not any(row.tree.rss_shared_bytes for row in rows):
        del series[1]  # an area of nothing would only take a place in the legend
    if any(row.span_seconds for row in rows):
        series.append(Series("highest", [_highest_rss(row) for row in rows], "peak", 3))
    summary = f"Highest {bytes_in_words(peak)} at {seconds_in_words(peak_row.t_seconds)}"
    uses = limit_uses(run)
    if uses:
        limit = uses[0]
        summary += f"; the limit is {bytes_in_words(limit.limit_bytes)} ({limit.source})"
        if limit.limit_bytes <= _LIMIT_IN_VIEW * max(peak, limit.used_bytes * 0.5):
            series.append(Series("limit", [float(limit.limit_bytes)] * len(rows), "limit", 4))
    return Chart(
        "memory", "Memory of all processes", "bytes", _times(rows), series, summary + ".", marks
    )


def _highest_rss(row: VitalsRow) -> float:
    return float(row.maximum.get("tree.rss_bytes", row.tree.rss_bytes))


def _times(rows: Sequence[VitalsRow]) -> list[float]:
    return [round(row.t_seconds, 2) for row in rows]


def _column(run: RecordedRun, marks: list[Mark], column: Column) -> Chart | None:
    """The sum over the tree of a column that is declared with a chart of its own."""

    def value(row: VitalsRow) -> float:
        return float(getattr(row.tree, column.name))

    rows = [row for row in run.vitals if value(row)]
    if not rows:
        return None
    highest = max(rows, key=value)
    kept = thin(rows, value)
    series = Series(column.chart.lower(), [value(row) for row in kept], "line", 0)
    in_words: Callable[[float], str] = (
        bytes_in_words if column.unit == "bytes" else "{:.12g}".format
    )
    summary = (
        f"From {in_words(value(rows[0]))} to {in_words(value(rows[-1]))}, highest "
        f"{in_words(value(highest))} at {seconds_in_words(highest.t_seconds)}."
    )
    unit = column.unit if column.unit in ("bytes", "count", "seconds") else "number"
    return Chart(column.name, column.chart, unit, _times(kept), [series], summary, marks)


def _cpu(run: RecordedRun, marks: list[Mark]) -> Chart | None:
    """Cores in use, over at least one second so that the 10 ms ticks do not show."""
    points: list[tuple[float, float]] = []
    last: VitalsRow | None = None
    for row in run.vitals:
        if last is None:
            last = row
        elif row.t_seconds - last.t_seconds >= 1:
            used = row.tree.cpu_seconds - last.tree.cpu_seconds
            points.append((row.t_seconds, max(used, 0.0) / (row.t_seconds - last.t_seconds)))
            last = row
    if len(points) < 3:
        return None
    kept = thin(points, lambda point: point[1])
    mean = sum(cores for _, cores in points) / len(points)
    return Chart(
        "cpu",
        "CPU",
        "cores",
        [round(t, 2) for t, _ in kept],
        [Series("cores in use", [round(cores, 3) for _, cores in kept], "line", 0)],
        f"On average {mean:.1f} cores; {points[-1][1]:.1f} in the last second before the end.",
        marks,
    )


def _step_time(run: RecordedRun, marks: list[Mark]) -> Chart | None:
    history = _steps_of(run)
    points = [
        (b.t_seconds, (b.t_seconds - a.t_seconds) / (b.step - a.step))
        for a, b in pairwise(history)
        if b.step > a.step and b.t_seconds >= a.t_seconds
    ]
    if len(points) < 2:
        return None
    ordered = sorted(value for _, value in points)
    kept = thin(points, lambda point: point[1])
    return Chart(
        "step-time",
        "Step time",
        "seconds",
        [round(t, 3) for t, _ in kept],
        [Series("seconds per step", [round(value, 5) for _, value in kept], "line", 0)],
        f"Median {seconds_in_words(ordered[len(ordered) // 2])}, slowest "
        f"{seconds_in_words(ordered[-1])}{_reach(history)}.",
        marks,
    )


def _steps_of(run: RecordedRun) -> list[StepPoint]:
    """The thinned past, then each of the last steps; as printed where no agent counted any."""
    box = run.training_box
    last = box.history if box is not None else []
    pid = box.pid if box is not None and last else 0
    past = [row for row in run.steps if row.pid == pid]
    return [*(p for p in past if not last or p.t_seconds < last[0].t_seconds), *last]


def _reach(history: Sequence[StepPoint]) -> str:
    first = history[0].step
    return f" (steps {first} to {history[-1].step})" if first > 1 else ""


def _loss(run: RecordedRun, marks: list[Mark]) -> Chart | None:
    box, history = run.training_box, _steps_of(run)
    if sum(point.loss is not None for point in history) < _FEWEST_LOSSES:
        history = [row for row in run.steps if not row.pid]
    points = [(p.t_seconds, p.loss) for p in history if p.loss is not None]
    if len(points) < _FEWEST_LOSSES:
        return None
    kept = thin(points, lambda point: point[1] if math.isfinite(point[1]) else math.inf)
    values = [loss if math.isfinite(loss) else None for _, loss in kept]
    finite = [value for value in values if value is not None]
    if not finite:
        return None
    summary = f"From {finite[0]:.4g} to {finite[-1]:.4g}"
    if len(finite) < len(values):
        since = box.first_nonfinite_step if box is not None else None
        summary += f", then not finite from step {since or '?'} on"
    is_wide = min(finite) > 0 and max(finite) / min(finite) > 1000
    return Chart(
        "loss",
        "Loss",
        "number",
        [round(t, 3) for t, _ in kept],
        [Series("loss", [None if v is None else float(f"{v:.6g}") for v in values], "line", 0)],
        f"{summary}{_reach(history)}.",
        marks,
        is_logarithmic=is_wide,
    )
