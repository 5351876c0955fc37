"""What a trial is asked to do, and what came of it: the records of the planner's door."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal[
    "crashed",  # of the failure under investigation
    "survived",  # was ended, or finished, without it
    "other",  # died of something else: survived up to that point
]


@dataclass(frozen=True)
class TrialResult:
    """One run of the command with a set of changes applied."""

    changes: frozenset[str]
    exposure: float  # from the start of the run to its end, in the investigation's unit
    outcome: Ending
    ended_itself: bool = False  # a clean run that came to the command's own end

    def __post_init__(self) -> None:
        if not (self.exposure >= 0.0 and math.isfinite(self.exposure)):
            raise ValueError(f"exposure is a finite number from zero up, not {self.exposure}")
        if self.outcome == "crashed" and self.exposure == 0.0:
            raise ValueError("a crash needs some exposure: count the step that it died in")

    @classmethod
    def of(
        cls,
        changes: Iterable[str],
        exposure: float,
        outcome: Ending,
        ended_itself: bool = False,
    ) -> TrialResult:
        return cls(frozenset(changes), float(exposure), outcome, ended_itself)


@dataclass(frozen=True)
class Plan:
    """The next trial: apply these changes and run for at most this exposure."""

    changes: tuple[str, ...]
    exposure_limit: float
    reason: str
    # Of a trial under way: the exposure that it has come through so far.
    done: float = field(default=0.0, compare=False)
