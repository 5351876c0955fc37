"""The table of a study: one row per cell, one per configuration, and why each death happened.

In: the study and the states of its cells. Out: a `StudyTable` of plain data, its CSV and its JSON.
The terminal and HTML views show this and nothing else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rerail.study.cells import label_of, text_of
from rerail.study.effects import Effects, Sample, Summary, effects, summarise
from rerail.study.model import Metric, Study, Value
from rerail.study.state import Attempt, CellState
from rerail.wording import percent

SCHEMA = 1
_WITHOUT_CAUSE = {"died": "unexplained", "incomplete": "files missing", "stopped": "over a limit"}
_CSV_ENDING = ("seconds", "peak_rss_bytes", "attempts", "causes", "remedies", "run", "files")


@dataclass(frozen=True)
class Death:
    cell: str
    attempt: int
    cause: str | None
    probability: float | None
    summary: str
    decision: str
    run: str

    verdict: str = "died"

    @property
    def cause_in_words(self) -> str:
        if self.cause is None:
            return _WITHOUT_CAUSE[self.verdict]
        sure = f" ({percent(self.probability)})" if self.probability else ""
        return f"{self.cause}{sure}"


@dataclass(frozen=True)
class Configuration:
    """The same parameters under every seed."""

    name: str
    parameters: dict[str, Value]
    metrics: dict[str, Summary]
    done: int
    cells: int


@dataclass(frozen=True)
class StudyTable:
    name: str
    axes: tuple[str, ...]
    metrics: tuple[Metric, ...]
    cells: tuple[CellState, ...]
    configurations: tuple[Configuration, ...]
    deaths: tuple[Death, ...]
    effects: dict[str, Effects] = field(default_factory=dict)
    has_seeds: bool = False

    def count(self, state: str) -> int:
        return sum(cell.state == state for cell in self.cells)

    @property
    def headline(self) -> str:
        parts = [f"{self.count('done')} of {len(self.cells)} cells done"]
        for state in ("running", "failed", "waiting"):
            if self.count(state):
                parts.append(f"{self.count(state)} {state}")
        if self.deaths:
            number = len(self.deaths)
            parts.append(f"{number} death{'s' * (number > 1)} on the way")
        if damaged := sum(bool(cell.damage) for cell in self.cells):
            parts.append(f"results of {damaged} changed since")
        return "; ".join(parts)

    @property
    def is_complete(self) -> bool:
        """Whether every cell is done, and its results are still as they were collected."""
        is_done = self.count("done") == len(self.cells)
        return is_done and not any(cell.damage for cell in self.cells)


def build_table(study: Study, states: Mapping[str, CellState]) -> StudyTable:
    cells = tuple(states.values())
    done = [state for state in cells if state.state == "done"]
    found = {}
    for metric in study.metrics:
        samples = [
            Sample(state.cell.parameters, state.metrics[metric.name])
            for state in done
            if metric.name in state.metrics
        ]
        result = effects(study.axes, samples)
        if result is not None:
            found[metric.name] = result
    return StudyTable(
        name=study.name,
        axes=tuple(axis.name for axis in study.axes),
        metrics=study.metrics,
        cells=cells,
        configurations=_configurations(study, cells),
        deaths=tuple(_death(state, a) for state in cells for a in state.deaths),
        effects=found,
        has_seeds=len(study.seeds) > 1,
    )


def _configurations(study: Study, cells: tuple[CellState, ...]) -> tuple[Configuration, ...]:
    groups: dict[str, list[CellState]] = {}
    for state in cells:
        name = state.cell.name
        if study.seeds:
            name = name.removesuffix(f"_seed={state.cell.seed}")
        groups.setdefault(name, []).append(state)
    found = []
    for name, members in groups.items():
        metrics = {}
        for metric in study.metrics:
            values = [m.metrics[metric.name] for m in members if metric.name in m.metrics]
            if values:
                metrics[metric.name] = summarise(values)
        done = sum(member.state == "done" for member in members)
        parameters = dict(members[0].cell.parameters)
        found.append(Configuration(name, parameters, metrics, done, len(members)))
    return tuple(found)


def _death(state: CellState, attempt: Attempt) -> Death:
    return Death(
        cell=state.cell.name,
        attempt=attempt.number,
        cause=attempt.cause,
        probability=attempt.probability,
        summary=attempt.summary,
        decision=attempt.decision,
        run=attempt.run,
        verdict=attempt.verdict,
    )


def remedies_of(state: CellState) -> str:
    """The changes that a finished cell was finished with: said, because they are not nothing."""
    return ", ".join(state.last.changes) if state.last else ""


def causes_of(state: CellState) -> str:
    """Why it died, each cause once, in order."""
    names = [a.cause or _WITHOUT_CAUSE[a.verdict] for a in state.deaths]
    counts = {name: names.count(name) for name in names}
    return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())


def to_csv(table: StudyTable) -> str:
    """One row per cell; numbers as they were read, bytes and seconds in plain units."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = _parameter_names(table)
    metrics = [metric.name for metric in table.metrics]
    parameters_of = [label_of(name) for name in names]
    writer.writerow(["cell", *parameters_of, "seed", "state", *metrics, *_CSV_ENDING])
    for state in table.cells:
        parameters = state.cell.parameters
        writer.writerow(
            [
                state.cell.name,
                *(text_of(parameters[name]) if name in parameters else "" for name in names),
                state.cell.seed,
                state.state,
                *(_number(state.metrics.get(name)) for name in metrics),
                _number(state.last.seconds if state.last else None),
                state.peak_rss_bytes or "",
                len(state.attempts),
                causes_of(state),
                remedies_of(state),
                state.last.run if state.last else "",
                len(state.files),
            ]
        )
    return out.getvalue()


def to_json(table: StudyTable) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "study": table.name,
        "done": table.count("done"),
        "failed": table.count("failed"),
        "waiting": table.count("waiting"),
        "running": table.count("running"),
        "cells": [_cell_json(state) for state in table.cells],
        "configurations": [
            {
                "name": each.name,
                "parameters": each.parameters,
                "metrics": each.metrics,
                "done": each.done,
                "cells": each.cells,
            }
            for each in table.configurations
        ],
        "effects": {name: _effects_json(found) for name, found in table.effects.items()},
    }


def _cell_json(state: CellState) -> dict[str, Any]:
    return {
        "cell": state.cell.name,
        "parameters": state.cell.parameters,
        "seed": state.cell.seed,
        "state": state.state,
        "failure": state.failure,
        "metrics": state.metrics,
        "missing_metrics": state.missing_metrics,
        "files": state.files,
        "damage": state.damage,
        "remedies": list(state.last.changes) if state.last else [],
        "seconds": state.last.seconds if state.last else None,
        "peak_rss_bytes": state.peak_rss_bytes or None,
        "attempts": [
            {
                "attempt": attempt.number,
                "verdict": attempt.verdict or "running",
                "cause": attempt.cause,
                "probability": attempt.probability,
                "summary": attempt.summary,
                "decision": attempt.decision,
                "changes": list(attempt.changes),
                "resumed_from": attempt.resumed_from,
                "seconds": attempt.seconds,
                "run": attempt.run,
            }
            for attempt in state.attempts
        ],
    }


def _effects_json(found: Effects) -> dict[str, Any]:
    return {
        "noise": found.noise,
        "configurations": found.configurations,
        "left_out": [{"axis": axis, "value": value} for axis, value in found.left_out],
        "main": [
            {
                "axis": main.axis,
                "size": main.size,
                "share": main.share,
                "standard_error": main.standard_error,
                "levels": [{"value": value, **vars(level)} for value, level in main.levels],
            }
            for main in found.mains
        ],
        "interactions": [
            {
                "axes": list(each.axes),
                "size": each.size,
                "share": each.share,
                "means": [{"values": list(pair), "mean": m} for pair, m in each.means.items()],
            }
            for each in found.interactions
        ],
    }


def _parameter_names(table: StudyTable) -> list[str]:
    names = dict.fromkeys(table.axes)
    for state in table.cells:
        names.update(dict.fromkeys(state.cell.parameters))
    return list(names)


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
