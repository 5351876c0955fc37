"""The table of a study as one HTML file that needs nothing else.

In: a `StudyTable`. Out: a page with the cells, the deaths and what was done about them, mean and
spread, main effects, interactions and plots. Promises: no text of a run can become markup (jinja2
escapes it, and the plots escape their labels); the page loads nothing and runs no script, and its
policy lets the browser do neither.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

import rerail
from rerail.study import svg, terminal
from rerail.study.cells import label_of, text_of
from rerail.study.effects import Effects
from rerail.study.table import StudyTable, causes_of, remedies_of
from rerail.wording import bytes_in_words, seconds_in_words

_TONES = {"ok": "ok", "interrupted": "interrupted"}


def render(table: StudyTable) -> str:
    import jinja2  # late: its import costs more than a whole `rerail study status`

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rerail.study", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (resources.files("rerail.study") / "templates" / "study.css").read_text("utf-8")
    page: str = environment.get_template("study.html").render(
        table=table,
        rows=[_row(table, at) for at in range(len(table.cells))],
        plots=[_plots(table, metric.name) for metric in table.metrics],
        timeline=svg.timeline("Attempts over time", _bars(table)),
        style=style,
        policy=_policy(style),
        generator=f"rerail {rerail.__version__}",
        summary_in_words=terminal.summary_in_words,
        label_of=label_of,
    )
    return page


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"


def _row(table: StudyTable, at: int) -> dict[str, Any]:
    state = table.cells[at]
    last = state.last
    return {
        "name": state.cell.name,
        "state": state.state,
        "failure": state.failure,
        "attempts": len(state.attempts),
        "metrics": [terminal.number(state.metrics.get(m.name)) for m in table.metrics],
        "time": seconds_in_words(last.seconds) if last and last.seconds else "",
        "memory": bytes_in_words(state.peak_rss_bytes) if state.peak_rss_bytes else "",
        "causes": causes_of(state),
        "remedies": remedies_of(state),
        "files": [(f["path"], bytes_in_words(f["size_bytes"]), f["sha256"]) for f in state.files],
        "command": " ".join(state.cell.command),
        "run": last.run if last else "",
    }


def _plots(table: StudyTable, metric: str) -> dict[str, Any]:
    points = [
        svg.Point(each.name, each.metrics[metric].mean, each.metrics[metric].spread)
        for each in table.configurations
        if metric in each.metrics
    ]
    found = table.effects.get(metric)
    return {
        "metric": metric,
        "cells": svg.dots(f"{metric} of every configuration", points),
        "mains": _main_plots(metric, found) if found else [],
        "interactions": _interaction_plots(metric, found) if found else [],
        "words": _words(found) if found else [],
    }


def _words(found: Effects) -> list[str]:
    """The terminal's lines, with what hangs below a line joined to it."""
    joined: list[str] = []
    for line in terminal.effect_words(found):
        if line.startswith("    ") and joined:
            joined[-1] += f" ({line.strip()})"
        else:
            joined.append(line.strip())
    return joined


def _main_plots(metric: str, found: Effects) -> list[tuple[str, str]]:
    plots = []
    for main in found.mains:
        points = tuple(svg.Point(text_of(value), level.mean) for value, level in main.levels)
        title = f"{metric} by {label_of(main.axis)}"
        plots.append((title, svg.lines(title, [svg.Line("", points)])))
    return plots


def _interaction_plots(metric: str, found: Effects) -> list[tuple[str, str]]:
    plots = []
    for each in found.interactions:
        firsts = list(dict.fromkeys(pair[0] for pair in each.means))
        seconds = list(dict.fromkeys(pair[1] for pair in each.means))
        lines = [
            svg.Line(
                f"{label_of(each.axes[1])}={text_of(second)}",
                tuple(svg.Point(text_of(x), each.means[(x, second)]) for x in firsts),
            )
            for second in seconds
        ]
        names = " and ".join(label_of(axis) for axis in each.axes)
        title = f"{metric} by {names}"
        plots.append((title, svg.lines(title, lines)))
    return plots


def _bars(table: StudyTable) -> list[svg.Bar]:
    bars = []
    for state in table.cells:
        for attempt in state.attempts:
            if attempt.seconds is None:
                continue
            tone = _TONES.get(attempt.verdict, "died")
            words = f"{state.cell.name}, attempt {attempt.number}: {attempt.summary}"
            row = state.cell.name
            bars.append(svg.Bar(row, attempt.started_unix, attempt.seconds, tone, words))
    return bars
