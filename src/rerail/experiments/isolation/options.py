"""What an investigation is asked for, who is told while it works, and a trial under way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rerail.changes import Change
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.exposure import Unit
from rerail.experiments.trials.trial_setup import ReadyTrial
from rerail.scheduling import RunningTask

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class IsolateOptions:
    confidence: float = 0.99
    budget_seconds: float = 1800.0
    max_trials: int | None = None
    jobs: int = 1
    scheduler: str = "local"
    stall_seconds: float | None = None
    seeks_alternatives: bool = False
    is_fresh: bool = False
    raises_hazard: bool | None = None  # make the failure come sooner; None: if it is slow
    seed: int | None = None  # draws the order of changes that are alike; None: as given
    reproducer: Path | None = None  # the folder that gets the smallest command that fails
    checkpoint: str | None = None  # a pattern; None: as the recorded run was given it
    resume_args: str | None = None
    keeps_environments: bool = False  # those that were built for versions
    keeps_outputs: bool = False  # what trials wrote
    may_write: bool = False  # where the command writes, if no overlay is possible
    edits: str | None = None  # take back the user's edits: "" those not committed, else since REV
    bisect: str | None = None  # GOOD..BAD: which commit brought it
    goes_on_unasked: bool = False  # also where the command has not failed once


@dataclass
class UnderWay:
    number: int
    plan: Plan
    changes: list[Change]
    variables: dict[str, str]
    running: RunningTask
    started: float
    stopped_ns: int | None = None
    exposure: float = 0.0
    raised: list[Change] = field(default_factory=list)
    ready: ReadyTrial | None = None  # None: it runs the command as it is
    question: str = ""
    meaning: str = ""
    _first: tuple[float, float] | None = None  # when it had come how far, once it moved
    _last: tuple[float, float] | None = None

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

    @property
    def checkpoint(self) -> str:
        """Where it began."""
        return self.ready.checkpoint if self.ready is not None else ""
