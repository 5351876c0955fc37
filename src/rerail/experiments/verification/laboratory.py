"""One recorded run of a command with changes applied, watched until it has said enough.

In: the changes and when it is enough. Out: a `Tried` run: what came of it, judged against the
failure that is looked for, and its trace. An interruption stops the run and counts what it showed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rerail.changes import Change
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.failure import Diagnostician, Failure
from rerail.experiments.trials.outcome import Wanted, judge_run, lived_so_far
from rerail.experiments.trials.trial import Trial, Verification
from rerail.experiments.trials.trial_driver import POLL_SECONDS, look_at, stop
from rerail.experiments.trials.trial_setup import ReadyTrial, TrialSetup
from rerail.experiments.verification.trace import Trace, read_trace
from rerail.scheduling import RunningTask, Scheduler
from rerail.store import RunFolder, Store

Stopped = Literal["", "enough", "budget", "interrupted", "overfull"]


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
    store: Store
    scheduler: Scheduler
    diagnostician: Diagnostician
    deadline: float  # on the monotonic clock
    setup: TrialSetup
    say: Callable[[str], None]
    stall_seconds: float | None = None

    def try_once(
        self,
        changes: Sequence[Change],
        settings: dict[str, Any],
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
    ) -> Tried:
        ready = self.setup.ready(changes, wanted.profile)
        run = ""
        try:
            tried = self._try(ready, settings, wanted, is_enough)
            run = tried.trial.run
            return tried
        finally:
            ready.leave(run)

    def _try(
        self,
        ready: ReadyTrial,
        settings: dict[str, Any],
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
    ) -> Tried:
        changes = ready.changes
        texts = tuple(change.text for change in changes)
        label = f"verify {' '.join(texts)[:40] or 'unchanged'} {os.urandom(3).hex()}"
        task = ready.task(label, self.stall_seconds, settings)
        running = self.scheduler.start(task)
        trace = Trace()
        stopped_ns: int | None = None
        stopped: Stopped = ""
        try:
            stopped = self._watch(running, ready, trace, wanted, is_enough)
        except KeyboardInterrupt:
            stopped = "interrupted"
        if stopped:
            stopped_ns = stop(running)
        path = running.folder()
        if path is None:
            why = running.problem() or "it left no record"
            lost = Trial(texts, "lost", Distance(0, 0, 0.0), summary=why, counts=False)
            return Tried(lost, None, stopped=stopped)
        tried = self.judge(RunFolder(path), changes, wanted, trace, stopped_ns, stopped)
        if not stopped and (why := ready.overfull(now=True)):
            self.say(f"a run does not count: {why}")  # perhaps it died of a full disk
            lost = replace(tried.trial, outcome="lost", summary=why, counts=False)
            return replace(tried, trial=lost, failure=None, stopped="overfull")
        missed = ready.without_effect()
        if missed:
            trial = replace(tried.trial, not_applied=(*tried.trial.not_applied, *missed))
            return replace(tried, trial=trial)
        return tried

    def _watch(
        self,
        running: RunningTask,
        ready: ReadyTrial,
        trace: Trace,
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
    ) -> Stopped:
        def how_far(folder: RunFolder, seconds: float) -> Distance:
            trace.take(folder.boxes())
            return lived_so_far(folder, wanted, seconds)

        started = time.monotonic()
        while True:
            left = self.deadline - time.monotonic()
            look = look_at(running, started, left, ready.overfull, how_far)
            if look.state == "over":
                return ""
            if look.state == "budget":
                return "budget"
            if look.state == "overfull":
                self.say(f"a run is ended: {look.why}")
                return "overfull"
            if look.distance is not None and is_enough(look.distance):
                return "enough"
            time.sleep(POLL_SECONDS)

    def judge(
        self,
        folder: RunFolder,
        changes: Sequence[Change],
        wanted: Wanted,
        trace: Trace | None = None,
        stopped_ns: int | None = None,
        stopped: Stopped = "",
    ) -> Tried:
        """What a run that is over shows of the failure."""
        info = folder.info()
        seconds = info.elapsed_seconds or 0.0
        judged = judge_run(folder, wanted, self.diagnostician, seconds, stopped_ns)
        failure = judged.failure
        variables = info.settings.get("changed_environment") or {}
        trial = Trial(
            changes=tuple(change.text for change in changes),
            outcome=judged.outcome,
            distance=judged.distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            not_applied=Verification.of(folder).without_effect(list(changes), variables),
            summary=judged.summary,
            checkpoint=info.settings.get("resumed_from") or "",
        )
        return Tried(trial, folder, failure, read_trace(folder, trace), stopped)
