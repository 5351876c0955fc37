"""One recorded run of a command with changes applied, watched until it has said enough.

In: the changes and when it is enough. Out: a `Tried` run: what came of it, judged against the
failure that is looked for, and its trace. An interruption stops the run and counts what it showed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rerail.errors import RerailError
from rerail.investigation.applies import Changed, apply_changes
from rerail.investigation.changes import Change
from rerail.investigation.exposure import Distance, measure
from rerail.investigation.failure import Diagnostician, Failure
from rerail.investigation.profile import Profile
from rerail.investigation.trial import Trial, TrialOutcome, Verification, died_before
from rerail.remedies.death import told_to_end
from rerail.remedies.trace import Trace, read_trace
from rerail.scheduling import RunningTask, Scheduler, Task
from rerail.store import RunFolder, Store

POLL_SECONDS = 0.1

Stopped = Literal["", "enough", "budget", "interrupted"]


@dataclass(frozen=True)
class Tried:
    trial: Trial
    folder: RunFolder | None
    failure: Failure | None = None  # whatever it died of
    trace: Trace = field(default_factory=Trace)
    stopped: Stopped = ""


@dataclass
class Laboratory:
    """Where runs of one command take place."""

    command: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    store: Store
    scheduler: Scheduler
    diagnostician: Diagnostician
    deadline: float  # on the monotonic clock
    stall_seconds: float | None = None

    def changed(self, changes: Sequence[Change], profile: Profile) -> Changed:
        return apply_changes(self.command, self.environ, changes, profile)

    def try_once(
        self,
        changes: Sequence[Change],
        profile: Profile,
        settings: dict[str, Any],
        wanted: Failure | None,
        is_enough: Callable[[Distance], bool],
    ) -> Tried:
        """`wanted`: the failure that is looked for; None where any failure will do."""
        changed = self.changed(changes, profile)
        texts = [change.text for change in changes]
        task = Task(
            command=changed.command,
            cwd=self.cwd,
            home=str(self.store.home.absolute()),
            environ={**self.environ, **changed.variables},
            label=f"verify {os.urandom(4).hex()}",
            stall_seconds=self.stall_seconds,
            settings={**settings, "changes": texts, "changed_environment": changed.variables},
        )
        running = self.scheduler.start(task)
        trace = Trace()
        stopped_ns: int | None = None
        stopped: Stopped = ""
        try:
            stopped = self._watch(running, trace, is_enough)
        except KeyboardInterrupt:
            stopped = "interrupted"
        if stopped:
            stopped_ns = time.monotonic_ns()
            running.stop()
        path = running.folder()
        if path is None:
            why = running.problem() or "it left no record"
            lost = Trial(tuple(texts), "lost", Distance(0, 0, 0.0), summary=why, counts=False)
            return Tried(lost, None, stopped=stopped)
        return self.judge(RunFolder(path), changes, wanted, trace, stopped_ns, stopped)

    def _watch(
        self, running: RunningTask, trace: Trace, is_enough: Callable[[Distance], bool]
    ) -> Stopped:
        while not running.is_over():
            if time.monotonic() >= self.deadline:
                return "budget"
            time.sleep(POLL_SECONDS)
            path = running.folder()
            if path is None:
                continue
            folder = RunFolder(path)
            try:
                trace.take(folder.boxes())
                seconds = (time.monotonic_ns() - folder.t0_ns) / 1e9
                distance = measure(folder, seconds)
            except RerailError:
                continue  # it is just being made
            if is_enough(distance):
                return "enough"
        return ""

    def judge(
        self,
        folder: RunFolder,
        changes: Sequence[Change],
        wanted: Failure | None,
        trace: Trace | None = None,
        stopped_ns: int | None = None,
        stopped: Stopped = "",
    ) -> Tried:
        """What a run that is over shows of the failure."""
        info = folder.info()
        distance = measure(folder, info.elapsed_seconds or 0.0)
        outcome: TrialOutcome = "stopped"
        failure = None
        if stopped_ns is None or died_before(folder, stopped_ns):
            ending = self.diagnostician.ending(folder)
            failure = ending.failure
            if failure is None:
                outcome = "finished"
            elif wanted is None or wanted.is_same_as(failure, ending.rivals):
                outcome = "crashed"
            elif told_to_end(folder) is None:
                outcome = "other"
        variables = info.settings.get("changed_environment") or {}
        trial = Trial(
            changes=tuple(change.text for change in changes),
            outcome=outcome,
            distance=distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            not_applied=Verification.of(folder).without_effect(list(changes), variables),
            summary=failure.summary if failure else "",
        )
        return Tried(trial, folder, failure, read_trace(folder, trace), stopped)
