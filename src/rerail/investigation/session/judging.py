"""What came of a trial: the record of its run comes in, a `Trial` goes out.

The first run that fails without any change settles which failure is under investigation, in which
unit runs are measured, and what the command looks like from inside.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rerail.changes import Change, read_profile
from rerail.investigation.session.earlier import earlier_runs, lifetimes
from rerail.investigation.session.exposure import (
    Distance,
    idle_seconds,
    measure,
    share_of_its_pace,
)
from rerail.investigation.session.failure import Diagnostician, Ending, Failure
from rerail.investigation.session.notebook import Notebook
from rerail.investigation.session.trial import Trial, TrialOutcome, Verification, died_before
from rerail.investigation.session.watching import UnderWay
from rerail.store import RunFolder, Store

# A program that kept a tenth of a processor busy, and then nothing for two seconds, stands still.
# Vitals tell processor time to the second.
_BUSY_SHARE = 0.1
_IDLE_SECONDS = 2.0


class Judge:
    """Writes what it learns of the failure itself into the notebook.

    `has_neighbours`: trials run beside each other, and may slow each other down.
    """

    def __init__(
        self,
        notebook: Notebook,
        diagnostician: Diagnostician | None = None,
        has_neighbours: bool = False,
    ) -> None:
        self.notebook = notebook
        self.has_neighbours = has_neighbours
        self.diagnostician = diagnostician or Diagnostician()

    def learn_from_earlier_runs(self, store: Store, cwd: str) -> int:
        """How many runs on record showed the failure that is now under investigation."""
        notebook = self.notebook
        runs = earlier_runs(store, notebook.command, cwd, self.diagnostician)
        newest = next((run for run in runs if run.has_failed), None)
        if newest is None:
            return 0
        self._settle(newest.ending, newest.folder)
        assert notebook.failure is not None
        crashes, survivals = lifetimes(runs, notebook.failure, notebook.unit)
        notebook.earlier_crashes, notebook.earlier_survivals = crashes, survivals
        notebook.earlier_runs = [run.folder.id for run in runs]
        notebook.earlier_seconds = sum(run.distance.seconds for run in runs)
        return len(crashes)

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
        outcome, failure, summary = self._outcome(each, folder)
        elapsed = folder.info().elapsed_seconds or seconds
        if outcome in ("crashed", "finished"):
            distance = measure(folder, elapsed)
        else:
            distance = self._without_idle_end(folder, elapsed)
        if outcome != "crashed":
            distance = self._at_its_pace(folder, distance)
        return Trial(
            changes=each.plan.changes,
            reason=each.plan.reason,
            outcome=outcome,
            distance=distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            summary=summary,
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
        if raised == self.notebook.raised:
            return raised
        missing = _without_effect(folder, each.raised, each.variables)
        return tuple(text for text in raised if text not in missing)

    def _outcome(
        self, each: UnderWay, folder: RunFolder
    ) -> tuple[TrialOutcome, Failure | None, str]:
        was_stopped = each.stopped_ns is not None
        if each.stopped_ns is not None and not died_before(folder, each.stopped_ns):
            return "stopped", None, "stopped by rerail"
        ending = self.diagnostician.ending(folder)
        failure = ending.failure
        known = self.notebook.failure
        if was_stopped and (
            failure is None or known is None or not known.is_same_as(failure, ending.rivals)
        ):
            # Helpers fail all the time; what counts is the failure that is looked for.
            return "stopped", None, "stopped by rerail"
        if failure is None:
            return "finished", None, "ended well"
        if known is None and not each.plan.changes:
            self._settle(ending, folder)
            return "crashed", failure, failure.summary
        is_it = known is not None and known.is_same_as(failure, ending.rivals)
        return "crashed" if is_it else "other", failure, failure.summary

    def how_far(self, folder: RunFolder, elapsed: float) -> Distance:
        """Of a trial that is clean so far."""
        return self._at_its_pace(folder, self._without_idle_end(folder, elapsed))

    def _at_its_pace(self, folder: RunFolder, distance: Distance) -> Distance:
        """Seconds as the failing run would have counted them: a run that is slowed down by others
        is not clean for longer. Steps and batches are the program's own, and need none of this."""
        profile = self.notebook.profile
        is_by_the_clock = self.notebook.unit == "seconds" and profile.busy_share >= _BUSY_SHARE
        if not (self.has_neighbours and is_by_the_clock):
            return distance
        share = share_of_its_pace(folder.recent_vitals(), profile.busy_share)
        return replace(distance, seconds=max(0.001, share * distance.seconds))

    def _without_idle_end(self, folder: RunFolder, elapsed: float) -> Distance:
        """Without the time that it stood still at the end, if the failing run did not.

        Steps tell by themselves that nothing goes on. By the clock alone, a change that makes the
        program hang would be taken for one that makes it live.
        """
        failure = self.notebook.failure
        if failure is not None and failure.is_a_hang:
            return measure(folder, elapsed, may_hang=True)
        distance = measure(folder, elapsed)
        if self.notebook.unit != "seconds" or self.notebook.profile.busy_share < _BUSY_SHARE:
            return distance
        idle = idle_seconds(folder.recent_vitals())
        if idle < _IDLE_SECONDS:
            return distance
        return replace(distance, seconds=max(0.001, elapsed - idle))

    def _settle(self, ending: Ending, folder: RunFolder) -> None:
        self.notebook.failure = ending.failure
        self.notebook.causes = ending.rivals
        self.notebook.phase = ending.phase
        self.notebook.unit = measure(folder, 0.0).unit()
        self.notebook.profile = read_profile(folder)


def _without_effect(
    folder: RunFolder, changes: Sequence[Change], variables: dict[str, str]
) -> tuple[str, ...]:
    return Verification.of(folder).without_effect(list(changes), variables)
