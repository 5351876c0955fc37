"""Which changes does the program not take? Trials come in; changes to leave out go out.

A change that never took effect says nothing. One that kills the program in its own way says
nothing either: alone it is left out at once, among others each of them is tried alone first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from rerail.catalogue import load_catalogue
from rerail.changes import Change
from rerail.errors import UsageError
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.trial import Trial
from rerail.experiments.trials.trial_setup import TrialSetup

MOST_OTHER = 3
MOST_UNREACHED = 2  # trials that failed before what they change was reached
# A death of another cause this early is the change's own doing: the program refuses it.
_EARLY_SHARE = 0.1
_ALIKE = 1.25
_SUSPECT = "whether the program takes this change"


def nothing_tells(failure: Failure) -> str:
    """The sentence for a failure that the program raises itself, and what could tell more of it."""
    name = (failure.exception or "its exception").rpartition(".")[2]
    return (
        f"no change of threads, workers or libraries can tell anything about {name}, which the"
        " program raises itself. What could: --try with an argument of the program or another"
        " input, --edits (takes back your own edits), --bisect GOOD..BAD (finds the commit),"
        " --since DATE (takes back what was installed since)"
    )


class Refusals:
    def __init__(
        self, journal: TrialJournal, say: Callable[[str], None], setup: TrialSetup
    ) -> None:
        self.journal = journal
        self._setup = setup
        self.suspects: list[str] = []  # may be what the program refuses: each is tried alone
        self._say = say

    def leave_out(self, change: str, why: str) -> None:
        self.journal.dropped[change] = why
        self._say(f"left out: {change}: {why}")

    def those_that_apply(self, changes: Sequence[Change]) -> list[str]:
        """By what is known of the command so far; the others are left out and named."""
        applying = []
        for change in changes:
            if change.text in self.journal.dropped:
                continue
            reason = self._setup.why_not(change, self.journal.profile)
            if reason is None:
                applying.append(change.text)
            else:
                self.leave_out(change.text, reason)
        return applying

    def refuse_all(self) -> NoReturn:
        """No change is left."""
        reasons = "\n".join(f"{name}: {why}" for name, why in self.journal.dropped.items())
        raise UsageError(
            "none of the changes applies to this command",
            f"{reasons or 'Name changes to try with --try.'}\n"
            "`rerail isolate --list -- CMD` shows what does.",
        )

    def next_suspect(self, limit: float) -> Plan | None:
        """A trial of one change that may be refused."""
        if not self.suspects:
            return None
        return Plan((self.suspects.pop(0),), limit, _SUSPECT)

    def find(self, trial: Trial, mean_exposure: float) -> bool:
        """Whether the last trial says nothing, because a change of it is to be left out.

        `mean_exposure` is how far runs come between two failures.
        """
        if trial.not_applied:
            ended_early = trial.outcome in ("crashed", "other", "lost")
            same = [t for t in self.journal.trials if t.changes == trial.changes]
            if ended_early and sum(bool(t.not_applied) for t in same) < MOST_UNREACHED:
                return True  # it may have ended before the place: tried again
            for change in trial.not_applied:
                self.leave_out(change, "it did not take effect: what it changes was never reached")
            return True
        if trial.outcome != "other" or not trial.changes:
            return False
        same = [t for t in self.journal.trials if t.changes == trial.changes]
        if (
            not self._is_early(trial, mean_exposure)
            and sum(t.outcome == "other" for t in same) < MOST_OTHER
        ):
            return False
        self.journal.trials[-1] = replace(trial, counts=False)
        if len(trial.changes) == 1:
            how = f"the command dies of {trial.cause}" if trial.cause else trial.summary
            self.leave_out(trial.changes[0], f"with it {how}")
            return True
        cleared = {
            t.changes[0]
            for t in self.journal.trials
            if len(t.changes) == 1 and t.outcome in ("crashed", "finished", "stopped")
        }
        self.suspects = [change for change in trial.changes if change not in cleared]
        if not self.suspects:
            names = ", ".join(trial.changes)
            self.leave_out(trial.changes[-1], f"together with others ({names}) the command dies")
        return True

    def _is_early(self, trial: Trial, mean_exposure: float) -> bool:
        unit = self.journal.unit
        exposure = trial.exposure(unit)
        if trial.reason == _SUSPECT or exposure <= _EARLY_SHARE * mean_exposure:
            return True
        if load_catalogue().policy_of(trial.cause).is_refusal:
            return True
        # Seconds count from the start of the process: before the first failure ever came, as far
        # as starts on a busy machine are alike.
        trials = self.journal.comparable_trials()
        seen = [t.exposure(unit) for t in trials if t.outcome == "crashed"]
        return unit == "seconds" and exposure < _ALIKE * min(seen, default=0.0)
