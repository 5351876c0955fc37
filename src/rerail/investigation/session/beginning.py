"""Where the trials of an investigation begin: a failure comes in, `start` of the notebook goes out.

First the unchanged command is run from the checkpoint. While that is under test, no other trial is
planned. The rules are those of `start`, files and copies those of `from_checkpoint`.
"""

from __future__ import annotations

from rerail.investigation.planner.observation import Plan
from rerail.investigation.session.exposure import measure
from rerail.investigation.session.failure import Failure
from rerail.investigation.session.from_checkpoint import CheckpointStart
from rerail.investigation.session.notebook import Notebook
from rerail.investigation.session.start import Start
from rerail.investigation.session.trial import Trial
from rerail.store import RunFolder, Store


class Beginning:
    def __init__(
        self, notebook: Notebook, store: Store, checkpoints: CheckpointStart | None
    ) -> None:
        self.notebook = notebook
        self._store = store
        self._checkpoints = checkpoints  # None: the command is not told to go on from one

    @property
    def under_test(self) -> Start | None:
        start = Start.from_json(self.notebook.start) if self.notebook.start else None
        is_open = self._checkpoints is not None and start is not None and start.state == "testing"
        return start if is_open else None

    def settle(self) -> None:
        """Once the failure is known, and when an investigation goes on."""
        notebook = self.notebook
        if self._checkpoints is None:
            notebook.start = None  # asked again without checkpoints: trials begin anew
            return
        folder, failure = self._failed_run()
        if notebook.start is None:
            elapsed = folder.info().elapsed_seconds or 0.0
            crash = measure(folder, elapsed).of(notebook.unit, died=True)
            start = self._checkpoints.choose(folder, failure, crash, notebook.unit)
        else:
            start = self._checkpoints.take_up(Start.from_json(notebook.start), folder)
        notebook.start = start.to_json()

    def plan(self) -> Plan | None:
        """The trial that tests the checkpoint, if it is under test."""
        start = self.under_test
        if start is None:
            return None
        why = f"whether it fails from {start.checkpoint} too"
        return Plan((), start.limit(self.notebook.unit), why)

    def take_note(self, trial: Trial) -> None:
        """Of a trial that `plan` asked for."""
        assert self._checkpoints is not None
        start = self._checkpoints.take_note(trial, *self._failed_run(), self.notebook.unit)
        self.notebook.start = start.to_json()

    def was_given_up(self) -> bool:
        """Whether a trial that is just being made had no room for its copy, so that it and all
        after it begin anew."""
        start = self._checkpoints.start if self._checkpoints else None
        if start is None or start.to_json() == self.notebook.start:
            return False
        self.notebook.start = start.to_json()
        return True

    def _failed_run(self) -> tuple[RunFolder, Failure]:
        failure = self.notebook.failure
        assert failure is not None
        return RunFolder(self._store.runs / failure.run), failure
