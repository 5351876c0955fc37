"""What an investigation is asked for, and a trial of it under way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rerail.changes import Change
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.exposure import Unit
from rerail.experiments.trials.trial_driver import UnderWay
from rerail.experiments.trials.trial_setup import TrialOptions


@dataclass(frozen=True)
class IsolateOptions(TrialOptions):
    confidence: float = 0.99
    budget_seconds: float = 1800.0
    max_trials: int | None = None
    jobs: int = 1
    scheduler: str = "local"
    seeks_alternatives: bool = False
    raises_hazard: bool | None = None  # make the failure come sooner; None: if it is slow
    seed: int | None = None  # draws the order of changes that are alike; None: as given
    reproducer: Path | None = None  # the folder that gets the smallest command that fails
    edits: str | None = None  # take back the user's edits: "" those not committed, else since REV
    bisect: str | None = None  # GOOD..BAD: which commit brought it
    goes_on_unasked: bool = False  # also where the command has not failed once


@dataclass(kw_only=True)
class PlannedTrial(UnderWay):
    """A trial that the planner asked for, and how far it is."""

    number: int
    plan: Plan
    changes: list[Change]  # of the plan
    raised: list[Change]
    question: str
    meaning: str
    exposure: float = 0.0
    _first: tuple[float, float] | None = None  # when it had come how far, once it moved
    _last: tuple[float, float] | None = None

    @property
    def raised_by(self) -> tuple[str, ...]:
        return tuple(change.text for change in self.raised)

    def has_come(self, exposure: float) -> None:
        self.exposure = exposure
        if exposure > 0.0:
            self._last = time.monotonic(), exposure
            self._first = self._first or self._last

    def pace(self, unit: Unit) -> float | None:
        """Exposure per second since it moved at all; None before that is known."""
        if unit == "seconds":
            return 1.0
        if self._first is None or self._last is None or self._last[1] <= self._first[1]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
