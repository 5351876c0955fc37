"""A trial that is over: the record of its run comes in, a `Trial` goes out.

What came of it is for `outcome.py` to say.

In an investigation the first run that fails without any change settles which failure it is about,
in which unit runs are measured, and what the command looks like from inside.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rerail.changes import Change, read_profile
from rerail.experiments.trials.earlier_runs import EarlierRun, earlier_runs, lifetimes
from rerail.experiments.trials.exposure import Distance, measure, share_of_its_pace
from rerail.experiments.trials.failure import Diagnostician, Ending, Failure
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.outcome import Wanted, judge_run, lived_so_far
from rerail.experiments.trials.trial import Trial, Verification
from rerail.experiments.trials.trial_driver import UnderWay
from rerail.store import RunFolder, Store


@dataclass(frozen=True)
class Tried:
    trial: Trial
    folder: RunFolder | None = None
    ending: Ending | None = None

    @property
    def failure(self) -> Failure | None:
        """Whatever it died of."""
        return self.ending.failure if self.ending is not None else None


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
        if journal.unit != "seconds" or not trial.distance.counts_steps:
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

    def judge(self, each: UnderWay, *, takes_any: bool = False) -> Trial:
        """`takes_any`: it shows the failure, whichever it is, if none was seen yet."""
        wanted = replace(self._wanted(), takes_any=takes_any)
        tried = judge_ended(each, wanted, self.diagnostician)
        trial, folder = tried.trial, tried.folder
        if folder is None:
            return trial
        if trial.outcome == "crashed" and wanted.failure is None and tried.ending is not None:
            self._settle(tried.ending, folder)
        if trial.outcome != "crashed":
            trial = replace(trial, distance=self._at_its_pace(folder, trial.distance))
        # What a trial wrote may have been too much for the disk, and that what it died of.
        is_spoilt = bool(each.overfull) and not each.stopped
        return replace(trial, counts=False) if is_spoilt else trial

    def _wanted(self) -> Wanted:
        journal = self.journal
        return Wanted(journal.failure, journal.unit, journal.profile)

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


def judge_ended(each: UnderWay, wanted: Wanted, diagnostician: Diagnostician) -> Tried:
    """Judge a trial that is over, with all changes that it was made ready with."""
    path, seconds = each.running.folder(), time.monotonic() - each.started
    changes = each.ready.changes
    if path is None:
        lost = Trial(
            tuple(change.text for change in changes),
            "lost",
            Distance(0, 0, seconds),
            summary=each.running.problem() or "it left no record",
            counts=False,
            checkpoint=each.ready.checkpoint,
        )
        return Tried(lost)
    tried = judge_recorded(
        RunFolder(path), changes, wanted, diagnostician, each.stopped_ns, seconds
    )
    missed = (*tried.trial.not_applied, *each.ready.without_effect())
    return replace(tried, trial=replace(tried.trial, not_applied=missed))


def judge_recorded(
    folder: RunFolder,
    changes: Sequence[Change],
    wanted: Wanted,
    diagnostician: Diagnostician,
    stopped_ns: int | None = None,
    seconds: float = 0.0,
) -> Tried:
    """Judge a run on record; it took `seconds` if it does not say itself how long."""
    info = folder.info()
    elapsed = info.elapsed_seconds or seconds
    judged = judge_run(folder, wanted, diagnostician, elapsed, stopped_ns)
    variables = info.settings.get("changed_environment") or {}
    trial = Trial(
        tuple(change.text for change in changes),
        judged.outcome,
        judged.distance,
        cause=judged.failure.cause if judged.failure else None,
        run=folder.id,
        summary=judged.summary,
        not_applied=Verification.of(folder).without_effect(list(changes), variables),
        lasted_seconds=elapsed,
        checkpoint=info.settings.get("resumed_from") or "",
    )
    return Tried(trial, folder, judged.ending)
