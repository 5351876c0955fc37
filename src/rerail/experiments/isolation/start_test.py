"""Where the trials of an investigation begin: a failure comes in, `start` of the journal goes out.

First the unchanged command is run from the checkpoint. While that is under test, no other trial is
planned. The rules are those of `start`, files and copies those of `from_checkpoint`.
"""

from __future__ import annotations

from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.exposure import measure
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.from_checkpoint import CheckpointStart
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.start import Start
from rerail.experiments.trials.trial import Trial
from rerail.store import RunFolder, Store


class StartTest:
    def __init__(
        self, journal: TrialJournal, store: Store, checkpoints: CheckpointStart | None
    ) -> None:
        self.journal = journal
        self._store = store
        self._checkpoints = checkpoints  # None: the command is not told to go on from one

    @property
    def under_test(self) -> Start | None:
        start = Start.from_json(self.journal.start) if self.journal.start else None
        is_open = self._checkpoints is not None and start is not None and start.state == "testing"
        return start if is_open else None

    def settle(self) -> None:
        """Once the failure is known, and when an investigation goes on."""
        journal = self.journal
        if self._checkpoints is None:
            journal.start = None  # asked again without checkpoints: trials begin anew
            return
        folder, failure = self._failed_run()
        if journal.start is None:
            elapsed = folder.info().elapsed_seconds or 0.0
            crash = measure(folder, elapsed).of(journal.unit, died=True)
            start = self._checkpoints.choose(folder, failure, crash, journal.unit)
        else:
            start = self._checkpoints.take_up(Start.from_json(journal.start), folder)
        journal.start = start.to_json()

    def plan(self) -> Plan | None:
        """The trial that tests the checkpoint, if it is under test."""
        start = self.under_test
        if start is None:
            return None
        why = f"whether it fails from {start.checkpoint} too"
        return Plan((), start.limit(self.journal.unit), why)

    def take_note(self, trial: Trial) -> None:
        """Of a trial that `plan` asked for."""
        assert self._checkpoints is not None
        start = self._checkpoints.take_note(trial, *self._failed_run(), self.journal.unit)
        self.journal.start = start.to_json()

    def was_given_up(self) -> bool:
        """Whether a trial that is just being made had no room for its copy, so that it and all
        after it begin anew."""
        start = self._checkpoints.start if self._checkpoints else None
        if start is None or start.to_json() == self.journal.start:
            return False
        self.journal.start = start.to_json()
        return True

    def _failed_run(self) -> tuple[RunFolder, Failure]:
        failure = self.journal.failure
        assert failure is not None
        return RunFolder(self._store.runs / failure.run), failure
