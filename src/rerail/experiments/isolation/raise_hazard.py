"""A failure that is slow to come is made to come sooner, if that can be done and really does it.

In: the journal of an investigation whose failure was seen. Out: the changes that all its trials
run with. A raise is first measured: the command runs with it and nothing else until its rate is
above that of the unchanged command with 95 %, or as long as one failure takes without it has been
spent in vain. From then on trials are compared with trials of the raised command only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rerail.changes import parse_change
from rerail.experiments.isolation.hazard_knobs import changes_that_raise
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.trial import Trial
from rerail.survival import Hazard

# Slow: fewer failures than this fit into the budget.
_FEW_IN_BUDGET = 10.0
_SURE = 0.95
_LEAST_CRASHES = 2
_MOST_TRIALS = 12

State = Literal["measuring", "adopted", "dropped"]


@dataclass(frozen=True)
class Raise:
    """What is in `raising` of the journal."""

    changes: tuple[str, ...]
    state: State
    why: str = ""  # it was dropped

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Raise:
        return cls(tuple(document["changes"]), document["state"], document["why"])


class Raising:
    """`is_wanted`: always, never, or (None) when the failure is slow for the budget."""

    def __init__(
        self,
        journal: TrialJournal,
        is_wanted: bool | None,
        budget_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.journal = journal
        self._is_wanted = is_wanted
        self._budget_seconds = budget_seconds
        self._say = say

    @property
    def now(self) -> Raise | None:
        found = self.journal.raising
        return Raise.from_json(found) if found is not None else None

    @property
    def for_trials(self) -> tuple[str, ...]:
        """What a trial that starts now runs with, besides its own changes."""
        now = self.now
        return now.changes if now is not None and now.state != "dropped" else ()

    def consider(self, environ: Mapping[str, str]) -> None:
        """Once the failure and the changes are known: is there a way, and is it wanted?"""
        journal = self.journal
        if journal.raising is not None or self._is_wanted is False:
            return
        if any(trial.changes for trial in journal.trials):
            return  # the investigation is under way on the command as it is
        if self._is_wanted is None and not self._is_slow():
            return
        changes = changes_that_raise(
            journal.causes,
            journal.phase,
            [parse_change(text) for text in journal.changes],
            journal.profile,
            journal.command,
            environ,
        )
        if changes:
            self._set(Raise(tuple(changes), "measuring"))
            self._say(f"first: does it fail sooner with {_words(changes)}?")
        elif self._is_wanted:
            self._say("--raise-hazard: nothing is known that would make this failure come sooner")

    def next_plan(self, running: Sequence[Plan]) -> Plan | None:
        """A run of the raised command, while it is being measured."""
        now = self.now
        if now is None or now.state != "measuring":
            return None
        left = self._allowance() - math.fsum(plan.exposure_limit for plan in running)
        left = max(left, 0.1 * self._allowance())
        return Plan((), left, f"whether it fails sooner with {_words(now.changes)}")

    def take_note(self, trial: Trial) -> bool:
        """A run of the raised command is over. Whether that settles that it is raised."""
        now = self.now
        if now is None or now.state != "measuring" or trial.outcome == "lost":
            return False
        if trial.raised != now.changes:
            self._drop("it did not take effect: what it changes was never reached")
            return False
        if trial.outcome == "other":
            self._drop(
                f"with it the command dies of {trial.cause}" if trial.cause else trial.summary
            )
            return False
        without, raised = self._without(), self._with(now.changes)
        if raised.crashes >= _LEAST_CRASHES and raised.chance_above(without) >= _SURE:
            self._set(Raise(now.changes, "adopted"))
            ratio = raised.rate / without.rate
            self._say(f"it fails {ratio:.1f} times as often with {_words(now.changes)}: kept")
            return True
        made = sum(each.raised == now.changes for each in self.journal.trials)
        if raised.exposure >= 0.99 * self._allowance() or made >= _MOST_TRIALS:
            self._drop("the failure does not come measurably sooner with it")
        return False

    def answer(self) -> dict[str, Any] | None:
        """The document's `raised`."""
        now = self.now
        if now is None:
            return None
        without, raised = self._without(), self._with(now.changes)
        return {
            "changes": list(now.changes),
            "adopted": now.state == "adopted",
            "why_not": now.why,
            "with": asdict(raised),
            "without": asdict(without),
            "ratio": round(raised.rate / without.rate, 2) if without.rate else None,
            "chance_higher": round(raised.chance_above(without), 4),
        }

    def _is_slow(self) -> bool:
        return self.journal.seconds_to_failure() > self._budget_seconds / _FEW_IN_BUDGET

    def _allowance(self) -> float:
        """What may be spent on measuring: as much as one failure takes without it."""
        return self._without().mean_time_to_failure

    def _without(self) -> Hazard:
        crashes, survivals = self.journal.earlier_lives()
        found = self._with(())
        exposure = math.fsum(crashes) + math.fsum(survivals) + found.exposure
        return Hazard(len(crashes) + found.crashes, exposure)

    def _with(self, changes: tuple[str, ...]) -> Hazard:
        """What trials with exactly this raise, and no change, showed."""
        unit = self.journal.unit
        trials = [
            trial
            for trial in self.journal.trials
            if trial.raised == changes
            and not trial.changes
            and trial.says_something
            and trial.checkpoint == self.journal.checkpoint
        ]
        crashes = sum(trial.outcome == "crashed" for trial in trials)
        return Hazard(crashes, math.fsum(trial.exposure(unit) for trial in trials))

    def _drop(self, why: str) -> None:
        now = self.now
        assert now is not None
        self._set(Raise(now.changes, "dropped", why))
        self._say(f"not kept: {_words(now.changes)}: {why}")

    def _set(self, now: Raise) -> None:
        self.journal.raising = {**asdict(now), "changes": list(now.changes)}


def _words(changes: Sequence[str]) -> str:
    return " and ".join(changes)
