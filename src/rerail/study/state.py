"""How a study stands: the journal folded into one state per cell.

In: the cells and the events of the journal. Out: `CellState`s. Pure; the same journal gives the
same states wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rerail.study.model import Cell

State = Literal["waiting", "running", "done", "failed"]


@dataclass
class Attempt:
    """One recorded run of a cell."""

    number: int
    label: str
    started_unix: float
    key: str = ""  # of the cell as the file had it then
    changes: tuple[str, ...] = ()  # the safe remedy that it was run with
    resumed_from: str = ""  # the checkpoint that it went on from
    is_over: bool = False
    verdict: str = ""  # ok, died, incomplete, interrupted, stopped
    run: str = ""
    summary: str = ""
    cause: str | None = None
    probability: float | None = None
    seconds: float | None = None
    usage: dict[str, float] = field(default_factory=dict)
    decision: str = ""  # why it is tried again, or why not
    next_changes: tuple[str, ...] = ()  # what the next attempt is to run with


@dataclass
class CellState:
    cell: Cell
    state: State = "waiting"
    attempts: list[Attempt] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    missing_metrics: dict[str, str] = field(default_factory=dict)  # name -> why
    files: list[dict[str, Any]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)  # what became of collected files
    failure: str = ""  # why it was given up
    changed_since: bool = False  # done, but the file now asks for something else

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def open_attempt(self) -> Attempt | None:
        """Started, and nobody wrote down how it ended."""
        return self.last if self.last is not None and not self.last.is_over else None

    @property
    def deaths(self) -> list[Attempt]:
        return [a for a in self.attempts if a.verdict in ("died", "incomplete", "stopped")]

    @property
    def seconds(self) -> float:
        return sum(a.seconds or 0.0 for a in self.attempts)

    @property
    def peak_rss_bytes(self) -> int:
        return int(max((a.usage.get("peak_rss_bytes", 0) for a in self.attempts), default=0))


def fold(cells: Sequence[Cell], events: Iterable[dict[str, Any]]) -> dict[str, CellState]:
    """The state of every cell that the file has; events of others are passed over."""
    states = {cell.name: CellState(cell) for cell in cells}
    for event in events:
        state = states.get(str(event.get("cell")))
        if state is not None:
            apply_event(state, event)
    return states


def apply_event(state: CellState, event: dict[str, Any]) -> None:
    """One event of this cell."""
    kind = event["kind"]
    if kind == "cell-started":
        state.state = "running"
        state.failure = ""
        state.attempts.append(
            Attempt(
                number=int(event.get("attempt", len(state.attempts) + 1)),
                label=str(event.get("label", "")),
                started_unix=float(event.get("unix", 0.0)),
                key=str(event.get("key", "")),
                changes=tuple(event.get("changes", ())),
                resumed_from=str(event.get("resumed_from", "")),
            )
        )
    elif kind == "cell-ended" and state.last is not None:
        _end(state.last, event)
        state.failure = str(event.get("failure", ""))
        state.state = "failed" if state.failure else "waiting"
    elif kind == "cell-done":
        state.state = "done"
        state.metrics = _finite(event.get("metrics"))
        state.missing_metrics = dict(event.get("missing_metrics", {}))
        state.files = list(event.get("files", []))
        state.changed_since = event.get("key") != state.cell.key
    elif kind == "cell-failed":
        state.state = "failed"
        state.failure = str(event.get("why", ""))
    elif kind == "cell-again":
        state.state = "waiting"
        state.failure = ""


def _end(attempt: Attempt, event: dict[str, Any]) -> None:
    attempt.is_over = True
    attempt.verdict = str(event.get("verdict", ""))
    attempt.run = str(event.get("run") or "")
    attempt.summary = str(event.get("summary", ""))
    attempt.cause = event.get("cause")
    attempt.probability = event.get("probability")
    attempt.seconds = event.get("seconds")
    attempt.usage = _finite(event.get("usage"))
    attempt.decision = str(event.get("decision", ""))
    attempt.next_changes = tuple(event.get("next_changes", attempt.changes))


def _finite(values: Any) -> dict[str, float]:
    if not isinstance(values, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
