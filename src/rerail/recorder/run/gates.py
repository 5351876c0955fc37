"""Gates: what a metric has to be once a step or an epoch is reached.

In: texts such as `loss < 2 @ step 500`, then what the run says of its metrics, in order. Out: each
gate judged once. Pure. The value that counts is the one that belongs to that step or epoch: on the
line that names it (or the first later one that was printed); if that line has none, the last one
before the next number, else the next one that comes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.errors import UsageError
from rerail.platform.patterns import linear
from rerail.records import StepPoint

Unit = Literal["step", "epoch"]
EXAMPLES = "--gate 'loss < 2 @ step 500' or\n--gate 'recall@500 > 0.5 @ epoch 1'"

_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MOST_NUMBER = 10**15
_GATE = linear(
    r"\s*(?P<metric>[A-Za-z_][\w./@%+-]{0,99})\s*(?P<operator><=|>=|<|>)"
    r"\s*(?P<bound>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"\s*@\s*(?P<unit>step|epoch)\s+(?P<at>\d{1,15})\s*"
)
_WHEN = linear(r"\s*(?:step|epoch)\s+\d{1,15}\s*")
_COMPARISON = linear(r"[<>]=?\s*[-+]?[\d.]")


@dataclass(frozen=True)
class Gate:
    metric: str
    operator: str
    bound: float
    unit: Unit
    at: int

    def __str__(self) -> str:
        return f"{self.metric} {self.asks} @ {self.unit} {self.at}"

    @property
    def asks(self) -> str:
        return f"{self.operator} {_number(self.bound)}"

    def is_met_by(self, value: float) -> bool:
        """A value that is not a number meets nothing."""
        return bool(_OPERATORS[self.operator](value, self.bound))


def parse_gate(text: str) -> Gate:
    """UsageError, with an example, for what is no gate."""
    found = _GATE.fullmatch(text)
    if found is None:
        raise UsageError(f"--gate {text!r} is no gate: {_what_is_wrong(text)}", _HOW)
    bound = float(found["bound"])
    if not math.isfinite(bound):
        raise UsageError(f"--gate {text!r} asks for a number that is too large", _HOW)
    unit: Unit = "step" if found["unit"] == "step" else "epoch"
    return Gate(found["metric"], found["operator"], bound, unit, int(found["at"]))


_HOW = f"Type a metric, a comparison, a number and when, as in\n{EXAMPLES}"


def _what_is_wrong(text: str) -> str:
    before, at, when = text.rpartition("@")
    if not at or _WHEN.fullmatch(when) is None:
        return "it has to end with `@ step N` or `@ epoch N`"
    if "<" not in before and ">" not in before:
        return "it has no comparison (<, <=, > or >=)"
    if _COMPARISON.search(before) is None:
        return "the comparison needs a number behind it"
    return "it is read as METRIC < NUMBER @ step N, and something else is in it"


def _number(value: float) -> str:
    if value == int(value) and abs(value) < MOST_NUMBER:
        return str(int(value))
    return repr(value)


@dataclass(frozen=True)
class Judged:
    gate: Gate
    value: float
    at: int  # the step or epoch that the value belongs to
    source: Literal["output", "agent"]

    @property
    def is_met(self) -> bool:
        return self.gate.is_met_by(self.value)

    @property
    def text(self) -> str:
        gate = self.gate
        said = f"{gate.metric} was {self.value:.4g} at {gate.unit} {self.at:,}"
        if self.is_met:
            return f"{said}, as the gate asks ({gate.asks})"
        return f"{said}, the gate asks for {gate.asks}"


class _Pending:
    """One gate that is not judged yet."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._name = gate.metric.lower()
        self._reached: int | None = None  # the first number that is no longer before the gate
        self._is_past = False  # a later number was named, and there was no value yet
        self._before: float | None = None
        self._since: float | None = None

    def line(self, metrics: Mapping[str, float], at: int | None) -> Judged | None:
        value = metrics.get(self._name)
        if at is not None and at >= self.gate.at:
            if value is not None and (self._reached is None or self._since is None):
                return self._judged(value, at)
            if self._reached is None:
                self._reached = at
            elif at > self._reached:
                known = self._since if self._since is not None else self._before
                if known is not None:
                    return self._judged(known, self._reached)
                self._is_past = True
        if value is None:
            return None
        if self._reached is None:
            self._before = value
        elif self._is_past:
            return self._judged(value, self._reached)
        else:
            self._since = value
        return None

    def end(self) -> Judged | None:
        known = self._since if self._since is not None else self._before
        if self._reached is None or known is None:
            return None
        return self._judged(known, self._reached)

    @property
    def why_not(self) -> str:
        gate = self.gate
        if self._reached is None:
            return f"{gate.unit} {gate.at:,} was not reached"
        return f"no {gate.metric} was seen at {gate.unit} {gate.at:,}"

    def _judged(self, value: float, at: int) -> Judged:
        return Judged(self.gate, value, at, "output")


class Gates:
    """All gates of a run."""

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._pending = [_Pending(gate) for gate in gates]
        self._printed: set[str] = set()  # units that the output itself counts

    @property
    def are_judged(self) -> bool:
        return not self._pending

    def note_line(self, metrics: Mapping[str, float], counts: Mapping[str, int]) -> list[Judged]:
        """What one line says: metrics by their name in lower case, and how far the run is."""
        self._printed.update(counts)
        return self._settle([p.line(metrics, counts.get(p.gate.unit)) for p in self._pending])

    def note_agent(
        self, step: int, epoch: int | None, loss: float | None, history: Sequence[StepPoint]
    ) -> list[Judged]:
        """What the agent sees; where the program prints its own numbers, those are meant."""
        counts = {"step": step or None, "epoch": epoch}
        found: list[Judged | None] = []
        for pending in self._pending:
            gate = pending.gate
            at = counts[gate.unit]
            if gate.unit in self._printed or at is None or at < gate.at:
                found.append(None)
            elif gate.metric.lower() != "loss":
                found.append(pending.line({}, at))
            elif gate.unit == "step":
                found.append(_in_history(gate, history))
            else:
                found.append(Judged(gate, loss, at, "agent") if loss is not None else None)
        return self._settle(found)

    def end(self) -> tuple[list[Judged], list[tuple[Gate, str]]]:
        """The run is over: what can still be judged, and why the others cannot."""
        judged = self._settle([pending.end() for pending in self._pending])
        left = [(pending.gate, pending.why_not) for pending in self._pending]
        self._pending = []
        return judged, left

    def _settle(self, found: Sequence[Judged | None]) -> list[Judged]:
        both = list(zip(self._pending, found, strict=True))
        self._pending = [pending for pending, judged in both if judged is None]
        return [judged for _, judged in both if judged is not None]


def _in_history(gate: Gate, history: Sequence[StepPoint]) -> Judged | None:
    """The loss at that step, or the nearest after it that is still on record."""
    points = [point for point in history if point.loss is not None and point.step >= gate.at]
    first = min(points, key=lambda point: point.step, default=None)
    if first is None or first.loss is None:
        return None
    return Judged(gate, first.loss, first.step, "agent")
