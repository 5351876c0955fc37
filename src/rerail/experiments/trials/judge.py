"""A trial of `isolate` that is over: the record of its run comes in, a `Trial` goes out.

What came of it is for `outcome.py` to say.

The first run that fails without any change settles which failure is under investigation, in which
unit runs are measured, and what the command looks like from inside.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rerail.changes import Change, read_profile
from rerail.experiments.isolation.options import UnderWay
from rerail.experiments.trials.earlier_runs import EarlierRun, earlier_runs, lifetimes
from rerail.experiments.trials.exposure import Distance, measure, share_of_its_pace
from rerail.experiments.trials.failure import Diagnostician, Ending
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.outcome import Wanted, judge_run, lived_so_far
from rerail.experiments.trials.trial import Trial, Verification
from rerail.store import RunFolder, Store


class Judge:
    """Writes what it learns of the failure itself into the journal.

    `has_neighbours`: trials run beside each other, and may slow each other down.
    """

    def __init__(
        self,
        journal: TrialJournal,
        diagnostician: Diagnostician | None = None,
        has_neighbours: bool = False,
    ) -> None:
        self.journal = journal
        self.has_neighbours = has_neighbours
        self.diagnostician = diagnostician or Diagnostician()

    def learn_from_earlier_runs(self, store: Store, cwd: str) -> int:
        """How many runs on record showed the failure that is now under investigation."""
        journal = self.journal
        runs = earlier_runs(store, journal.command, cwd, self.diagnostician)
        newest = next((run for run in runs if run.has_failed), None)
        if newest is None:
            return 0
        self._settle(newest.ending, newest.folder)
        journal.earlier_runs = [run.folder.id for run in runs]
        journal.earlier_seconds = sum(run.distance.seconds for run in runs)
        self._count_earlier(runs)
        return len(journal.earlier_crashes)

    def count_in_steps(self, trial: Trial, store: Store, cwd: str) -> bool:
        """Go over to steps if a trial counts them: who failed without any did so before the first.

        Then every failure has one place, which the clock cannot show. Return whether it was done.
        """
        journal = self.journal
        if journal.unit != "seconds" or trial.distance.unit() != "steps":
            return False
        if trial.outcome not in ("finished", "stopped") or journal.start or journal.raising:
            return False
        journal.unit = "steps"
        if journal.earlier_runs:
            runs = earlier_runs(store, journal.command, cwd, self.diagnostician)
            self._count_earlier([run for run in runs if run.folder.id in journal.earlier_runs])
        return True

    def _count_earlier(self, runs: Sequence[EarlierRun]) -> None:
        journal = self.journal
        assert journal.failure is not None
        crashes, survivals = lifetimes(runs, journal.failure, journal.unit)
        journal.earlier_crashes, journal.earlier_survivals = crashes, survivals

    def judge(self, each: UnderWay) -> Trial:
        path = each.running.folder()
        seconds = time.monotonic() - each.started
        if path is None:
            why = each.running.problem() or "it left no record"
            return Trial(
                each.plan.changes,
                "lost",
                Distance(0, 0, seconds),
                reason=each.plan.reason,
                summary=why,
                counts=False,
                raised=tuple(change.text for change in each.raised),
                checkpoint=each.checkpoint,
            )
        folder = RunFolder(path)
        elapsed = folder.info().elapsed_seconds or seconds
        wanted = self._wanted(each)
        judged = judge_run(folder, wanted, self.diagnostician, elapsed, each.stopped_ns)
        failure, distance = judged.failure, judged.distance
        if judged.outcome == "crashed" and wanted.failure is None and judged.ending is not None:
            self._settle(judged.ending, folder)
        if judged.outcome != "crashed":
            distance = self._at_its_pace(folder, distance)
        return Trial(
            changes=each.plan.changes,
            reason=each.plan.reason,
            outcome=judged.outcome,
            distance=distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            summary=judged.summary,
            not_applied=(
                *_without_effect(folder, each.changes, each.variables),
                *(each.ready.without_effect() if each.ready else ()),
            ),
            raised=self._raised(each, folder),
            lasted_seconds=elapsed,
            checkpoint=each.checkpoint,
        )

    def _raised(self, each: UnderWay, folder: RunFolder) -> tuple[str, ...]:
        """What the trial was raised by. Of a raise that is known to work, all of it: in a trial
        that ended early, or changed the same place, there need be no trace of it."""
        raised = tuple(change.text for change in each.raised)
        if raised == self.journal.raised:
            return raised
        missing = _without_effect(folder, each.raised, each.variables)
        return tuple(text for text in raised if text not in missing)

    def _wanted(self, each: UnderWay | None = None) -> Wanted:
        journal = self.journal
        takes_any = each is not None and not each.plan.changes
        return Wanted(journal.failure, journal.unit, journal.profile, takes_any)

    def how_far(self, folder: RunFolder, elapsed: float) -> Distance:
        """Of a trial that is clean so far."""
        return self._at_its_pace(folder, lived_so_far(folder, self._wanted(), elapsed))

    def _at_its_pace(self, folder: RunFolder, distance: Distance) -> Distance:
        """Seconds as the failing run would have counted them: a run that is slowed down by others
        is not clean for longer. Steps and batches are the program's own, and need none of this."""
        profile = self.journal.profile
        if not (self.has_neighbours and self._wanted().was_busy):
            return distance
        share = share_of_its_pace(folder.recent_vitals(), profile.busy_share)
        return replace(distance, seconds=max(0.001, share * distance.seconds))

    def _settle(self, ending: Ending, folder: RunFolder) -> None:
        self.journal.failure = ending.failure
        self.journal.causes = ending.rivals
        self.journal.phase = ending.phase
        self.journal.unit = measure(folder, 0.0).unit()
        self.journal.profile = read_profile(folder)


def _without_effect(
    folder: RunFolder, changes: Sequence[Change], variables: dict[str, str]
) -> tuple[str, ...]:
    return Verification.of(folder).without_effect(list(changes), variables)
