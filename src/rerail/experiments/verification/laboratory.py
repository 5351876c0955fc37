"""One recorded run of a command with changes applied, watched until it has said enough.

In: the changes and when it is enough. Out: a `TriedRun`: what came of it, judged against the
failure that is looked for, and its trace. An interruption stops the run and counts what it showed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rerail.changes import Change
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.failure import Diagnostician
from rerail.experiments.trials.judge import Tried, judge_ended, judge_recorded
from rerail.experiments.trials.outcome import Wanted, lived_so_far
from rerail.experiments.trials.trial_driver import Stopped, TrialDriver, UnderWay
from rerail.experiments.trials.trial_setup import TrialSetup
from rerail.experiments.verification.trace import Trace, read_trace
from rerail.store import RunFolder


@dataclass(frozen=True)
class TriedRun(Tried):
    trace: Trace = field(default_factory=Trace)
    stopped: Stopped = ""


@dataclass
class Laboratory:
    """Where runs of one command take place."""

    cwd: str
    driver: TrialDriver[UnderWay]
    diagnostician: Diagnostician
    setup: TrialSetup
    stall_seconds: float | None = None

    def try_once(
        self,
        changes: Sequence[Change],
        settings: dict[str, Any],
        wanted: Wanted,
        is_enough: Callable[[Distance], bool],
    ) -> TriedRun:
        each = UnderWay(self.setup.ready(changes, wanted.profile))
        trace = Trace()

        def how_far(folder: RunFolder, seconds: float) -> Distance:
            trace.take(folder.boxes())
            return lived_so_far(folder, wanted, seconds)

        texts = " ".join(change.text for change in changes)
        label = f"verify {texts[:40] or 'unchanged'} {os.urandom(3).hex()}"
        task = each.ready.task(label, self.stall_seconds, settings)
        self.driver.run(each, task, how_far, lambda _, distance: is_enough(distance))
        try:
            tried = judge_ended(each, wanted, self.diagnostician)
        finally:
            each.leave()
        if each.overfull and not each.stopped:  # perhaps it died of a full disk
            lost = replace(tried.trial, outcome="lost", summary=each.overfull, counts=False)
            tried = replace(tried, trial=lost, ending=None)
        return _traced(tried, trace, each.stopped)

    def judge(self, folder: RunFolder, changes: Sequence[Change], wanted: Wanted) -> TriedRun:
        """What a run of an earlier call shows of the failure."""
        return _traced(judge_recorded(folder, changes, wanted, self.diagnostician), Trace(), "")


def _traced(tried: Tried, trace: Trace, stopped: Stopped) -> TriedRun:
    if tried.folder is not None:
        trace = read_trace(tried.folder, trace)
    return TriedRun(tried.trial, tried.folder, tried.ending, trace, stopped)
