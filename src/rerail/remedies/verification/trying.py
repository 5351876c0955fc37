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

from rerail.changes import Change, Profile
from rerail.errors import RerailError
from rerail.investigation import (
    Diagnostician,
    Distance,
    Failure,
    ReadyTrial,
    Trial,
    TrialOutcome,
    TrialSetup,
    Unit,
    Verification,
    died_before,
    idle_seconds,
    measure,
)
from rerail.remedies.restart.death import told_to_end
from rerail.remedies.verification.trace import Trace, read_trace
from rerail.scheduling import RunningTask, Scheduler
from rerail.store import RunFolder, Store

POLL_SECONDS = 0.1

# A program that kept a quarter of a processor busy, and then nothing for two seconds and for two
# fifths of its time, is stuck.
_BUSY_SHARE = 0.25
_IDLE_SECONDS = 2.0
_IDLE_PART = 0.4

Stopped = Literal["", "enough", "budget", "interrupted"]


@dataclass(frozen=True)
class Wanted:
    """The failure that is looked for, and what the run that showed it was like."""

    failure: Failure | None = None  # None: any failure will do
    unit: Unit = "seconds"
    profile: Profile = field(default_factory=Profile)

    @property
    def is_a_hang(self) -> bool:
        return self.failure is not None and self.failure.is_a_hang


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
    stall_seconds: float | None = None

    def try_once(
        self,
        changes: Sequence[Change],
        settings: dict[str, Any],
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
    ) -> Tried:
        ready = self.setup.ready(changes, wanted.profile)
        try:
            return self._try(ready, settings, wanted, is_enough)
        finally:
            ready.leave()

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
            stopped = self._watch(running, trace, wanted, is_enough)
        except KeyboardInterrupt:
            stopped = "interrupted"
        if stopped:
            stopped_ns = time.monotonic_ns()
            running.stop()
        path = running.folder()
        if path is None:
            why = running.problem() or "it left no record"
            lost = Trial(texts, "lost", Distance(0, 0, 0.0), summary=why, counts=False)
            return Tried(lost, None, stopped=stopped)
        tried = self.judge(RunFolder(path), changes, wanted, trace, stopped_ns, stopped)
        missed = ready.without_effect()
        if missed:
            trial = replace(tried.trial, not_applied=(*tried.trial.not_applied, *missed))
            return replace(tried, trial=trial)
        return tried

    def _watch(
        self,
        running: RunningTask,
        trace: Trace,
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
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
                distance = measure(folder, seconds, may_hang=wanted.is_a_hang)
            except RerailError:
                continue  # it is just being made
            if is_enough(distance):
                return "enough"
        return ""

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
        failure, outcome = self._outcome(folder, wanted, stopped_ns)
        may_hang = wanted.is_a_hang and outcome == "stopped"
        distance = measure(folder, info.elapsed_seconds or 0.0, may_hang=may_hang)
        summary = failure.summary if failure else ""
        if outcome == "stopped" and (idle := _stuck_seconds(folder, wanted, distance)):
            outcome, summary = "other", f"it did nothing any more for {idle:.0f} s"
            distance = replace(distance, seconds=distance.seconds - idle)
        variables = info.settings.get("changed_environment") or {}
        trial = Trial(
            changes=tuple(change.text for change in changes),
            outcome=outcome,
            distance=distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            not_applied=Verification.of(folder).without_effect(list(changes), variables),
            summary=summary,
            checkpoint=info.settings.get("resumed_from") or "",
        )
        return Tried(trial, folder, failure, read_trace(folder, trace), stopped)

    def _outcome(
        self, folder: RunFolder, wanted: Wanted, stopped_ns: int | None
    ) -> tuple[Failure | None, TrialOutcome]:
        if stopped_ns is not None and not died_before(folder, stopped_ns):
            return None, "stopped"
        ending = self.diagnostician.ending(folder)
        if ending.failure is None:
            return None, "finished" if stopped_ns is None else "stopped"
        known = wanted.failure
        if known is None and stopped_ns is None:
            return ending.failure, "crashed"
        if known is not None and known.is_same_as(ending.failure, ending.rivals):
            return ending.failure, "crashed"
        # Also one of an earlier day: told to end, and not of the failure that is looked for.
        if stopped_ns is not None or told_to_end(folder) is not None:
            return None, "stopped"
        return ending.failure, "other"


def _stuck_seconds(folder: RunFolder, wanted: Wanted, distance: Distance) -> float:
    """How long it was idle at its end, where only the clock counts and it used to be busy.

    A fix that makes the program hang must not be taken for one that makes it live.
    """
    if wanted.unit != "seconds" or wanted.profile.busy_share < _BUSY_SHARE:
        return 0.0
    idle = idle_seconds(folder.recent_vitals())
    return idle if idle >= max(_IDLE_SECONDS, _IDLE_PART * distance.seconds) else 0.0
