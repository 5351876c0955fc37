"""The investigation at work: runs trials until the planner is sure, and keeps what was learnt.

In: a command and the changes to try. Out: the contract's document. Promises: every trial is a
recorded run in the store; the notebook is saved after each, and an interruption (Ctrl-C, the
budget) stops what runs, counts it for what it is worth, and keeps everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.errors import RerailError, UsageError
from rerail.investigation.answer import answer_of, keep_with_run
from rerail.investigation.applies import apply_changes
from rerail.investigation.candidates import default_changes, priors, why_not
from rerail.investigation.changes import parse_change, parse_changes
from rerail.investigation.earlier import earlier_runs, lifetimes
from rerail.investigation.exposure import Distance, measure
from rerail.investigation.failure import Diagnostician, Failure
from rerail.investigation.inquiry import Investigation
from rerail.investigation.notebook import Notebook
from rerail.investigation.observation import Ending, Plan, TrialResult
from rerail.investigation.profile import read_profile
from rerail.investigation.trial import Trial, TrialOutcome, Verification, crashed_before
from rerail.investigation.watching import IsolateOptions, Silent, UnderWay, Watcher
from rerail.recorder import CommandNotStarted
from rerail.recorder.launch import find_program
from rerail.scheduling import NotEnoughMemory, Scheduler, Task, open_scheduler
from rerail.store import RunFolder, Store
from rerail.survival import Lifetimes, constant_rate

POLL_SECONDS = 0.1
# A failure that comes once in ten runs shows in 30 with 96 %.
MOST_CLEAN_REFERENCES = 30
MOST_LOST = 3
MOST_OTHER = 3
# A repeat of the first crash says whether it comes at the same place; longer is wasted on it.
_REPEAT_LENGTH = 5.0
# A death of another cause this early is the change's own doing: the program refuses it.
_EARLY_SHARE = 0.1


def investigate(
    command: Sequence[str],
    tries: Sequence[str],
    store: Store,
    options: IsolateOptions | None = None,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Which of these changes removes the failure? The document of `isolate --json`."""
    return Session(command, tries, store, options or IsolateOptions(), watcher or Silent()).run()


class Session:
    def __init__(
        self,
        command: Sequence[str],
        tries: Sequence[str],
        store: Store,
        options: IsolateOptions,
        watcher: Watcher,
    ) -> None:
        self.command = tuple(command)
        self.store = store
        self.options = options
        self.watcher = watcher
        self.environ = dict(os.environ)
        self.cwd = str(Path.cwd())
        self.asked = parse_changes(tries)
        try:
            find_program(self.command[0], self.environ)
        except CommandNotStarted as error:
            raise UsageError(error.message, "Check the command after --.") from None
        self.notebook = Notebook.open(
            store.home,
            self.command,
            self.cwd,
            [change.text for change in self.asked],
            is_fresh=options.is_fresh,
        )
        self.diagnostician = Diagnostician()
        self.investigation: Investigation | None = None
        self.under_way: list[UnderWay] = []
        self._suspects: list[str] = []  # changes that may be what a program refuses
        self._jobs = options.jobs
        self._started = time.monotonic()
        self._spent_before = self.notebook.seconds
        self._trials_before = len(self.notebook.trials)
        self._why_ended = ""

    def run(self) -> dict[str, Any]:
        known = self.notebook.answer
        is_final = known is not None and known["status"] in ("confirmed", "none-of-these")
        if known is not None and is_final and known["confidence"] >= self.options.confidence:
            self.watcher.said("answered before; --fresh asks again")
            return known
        self._refuse_what_cannot_apply()
        if self.notebook.trials:
            count = len(self.notebook.trials)
            self.watcher.said(f"goes on after {count} trial{'s' * (count > 1)} on record")
        elif self.notebook.failure is None:
            self._learn_from_earlier_runs()
        scheduler = open_scheduler(self.options.scheduler, self.options.jobs)
        try:
            if self.notebook.failure is not None:
                self._prepare()
            self._work(scheduler)
        except KeyboardInterrupt:
            self._why_ended = "interrupted"
            self._stop_all()
        finally:
            scheduler.close()
            document = self._conclude()
        return document

    @property
    def seconds_left(self) -> float:
        return self.options.budget_seconds - (time.monotonic() - self._started)

    @property
    def trials_left(self) -> int | None:
        if self.options.max_trials is None:
            return None
        done = len(self.notebook.trials) - self._trials_before
        return max(0, self.options.max_trials - done - len(self.under_way))

    def _work(self, scheduler: Scheduler) -> None:
        while True:
            while len(self.under_way) < self._jobs:
                plan = self._next_plan()
                if plan is None:
                    break
                self._start(plan, scheduler)
            if not self.under_way:
                return
            time.sleep(POLL_SECONDS)
            for each in list(self.under_way):
                self._look_at(each)
            self._check_memory(scheduler)
            self.watcher.moved(self)

    def _next_plan(self) -> Plan | None:
        if self.seconds_left <= 0.0:
            self._why_ended = self._why_ended or "the time of the budget was used up"
            return None
        if self.trials_left == 0:
            self._why_ended = self._why_ended or f"{self.options.max_trials} trials were made"
            return None
        if sum(trial.outcome == "lost" for trial in self.notebook.trials) >= MOST_LOST:
            self._why_ended = "trials left no usable record"
            return None
        if self.notebook.failure is None:
            return self._plan_to_see_it()
        if self._suspects:
            suspect = self._suspects.pop(0)
            return Plan((suspect,), 1.0, "whether the program takes this change")
        investigation = self.investigation
        assert investigation is not None
        repeat = self._plan_to_repeat(investigation)
        if repeat is not None:
            return repeat
        plan = investigation.next_trial(
            running=[each.plan for each in self.under_way],
            seek_alternatives=self.options.seeks_alternatives,
        )
        if plan is None:
            return None
        # A run costs its start: once it runs, let it run about as long as the start took.
        least = max(self._least_exposure(), investigation.overhead)
        return replace(plan, exposure_limit=max(plan.exposure_limit, least))

    def _least_exposure(self) -> float:
        """A trial that ends before the failure could have come says nothing, however often.

        Seconds include the start, before which nothing can fail, and vary with the machine's load:
        there a trial has to pass the latest crash that was seen. Of steps, the earliest will do.
        """
        unit = self.notebook.unit
        seen = list(self.notebook.earlier_crashes)
        seen += [t.exposure(unit) for t in self.notebook.trials if t.outcome == "crashed"]
        if not seen:
            return 0.0
        return 1.2 * max(seen) + 0.5 if unit == "seconds" else min(seen) + 1.0

    def _plan_to_see_it(self) -> Plan | None:
        if self.under_way:
            return None  # the first run tells how much memory one takes
        clean = sum(not trial.changes for trial in self.notebook.trials)
        if clean >= MOST_CLEAN_REFERENCES:
            self._why_ended = f"it ran {clean} times without failing"
            return None
        return Plan((), float("inf"), "to see the failure without any change")

    def _plan_to_repeat(self, investigation: Investigation) -> Plan | None:
        crashes = list(self.notebook.earlier_crashes)
        crashes += [t.exposure for t in investigation.trials if t.outcome == "crashed"]
        seen_here = any(t.outcome == "crashed" for t in investigation.trials)
        repeats = sum(not trial.changes for trial in self.notebook.trials)
        is_running = any(not each.plan.changes for each in self.under_way)
        if (seen_here and len(crashes) >= 2) or repeats >= 2 or is_running or not crashes:
            return None
        return Plan((), _REPEAT_LENGTH * max(crashes), "whether it comes back, and where")

    def _start(self, plan: Plan, scheduler: Scheduler) -> None:
        number = len(self.notebook.trials) + len(self.under_way) + 1
        changes = [parse_change(text) for text in plan.changes]
        changed = apply_changes(self.command, self.environ, changes, self.notebook.profile)
        label = f"isolate {self.notebook.key} trial {number} {os.urandom(3).hex()}"
        task = Task(
            command=changed.command,
            cwd=self.cwd,
            home=str(self.store.home.absolute()),
            environ={**self.environ, **changed.variables},
            label=label,
            stall_seconds=self.options.stall_seconds,
            settings={
                "investigation": self.notebook.key,
                "changes": list(plan.changes),
                "changed_environment": changed.variables,
            },
        )
        self.watcher.started(number, plan)
        running = scheduler.start(task)
        self.under_way.append(
            UnderWay(number, plan, changes, changed.variables, running, time.monotonic())
        )

    def _look_at(self, each: UnderWay) -> None:
        if each.running.is_over():
            self._finish(each)
            return
        if self.seconds_left <= 0.0:
            self._why_ended = "the time of the budget was used up"
            self._stop(each)
            return
        folder = each.running.folder()
        if folder is None or self.investigation is None:
            return
        distance = measure(RunFolder(folder), time.monotonic() - each.started)
        each.exposure = distance.of(self.notebook.unit, died=False)
        is_enough = each.exposure >= self._least_exposure() and self.investigation.should_stop(
            each.exposure, each.plan
        )
        if is_enough or each.exposure >= each.plan.exposure_limit:
            self._stop(each)

    def _stop(self, each: UnderWay) -> None:
        each.stopped_ns = time.monotonic_ns()
        each.running.stop()
        self._finish(each)

    def _stop_all(self) -> None:
        for each in list(self.under_way):
            try:
                self._stop(each)
            except (RerailError, OSError):
                continue

    def _finish(self, each: UnderWay) -> None:
        self.under_way.remove(each)
        trial = self._judge(each)
        self.notebook.trials.append(trial)
        self.notebook.seconds = self._seconds()
        if self.notebook.failure is not None:
            if self.investigation is None:
                self._prepare()  # it was this trial that showed the failure
            else:
                self._take_note(trial)
        self.notebook.save()
        self.watcher.ended(each.number, trial)

    def _judge(self, each: UnderWay) -> Trial:
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
            )
        folder = RunFolder(path)
        info = folder.info()
        distance = measure(folder, info.elapsed_seconds or seconds)
        outcome, failure, summary = self._outcome(each, folder)
        checked = Verification.of(folder)
        missing = checked.without_effect(each.changes, each.variables)
        return Trial(
            changes=each.plan.changes,
            reason=each.plan.reason,
            outcome=outcome,
            distance=distance,
            cause=failure.cause if failure else None,
            run=folder.id,
            summary=summary,
            not_applied=missing,
        )

    def _outcome(
        self, each: UnderWay, folder: RunFolder
    ) -> tuple[TrialOutcome, Failure | None, str]:
        if each.stopped_ns is not None and not crashed_before(folder, each.stopped_ns):
            return "stopped", None, "stopped by rerail"
        ending = self.diagnostician.ending(folder)
        failure = ending.failure
        if failure is None:
            return "finished", None, "ended well"
        known = self.notebook.failure
        if known is None:
            if each.plan.changes:
                return "other", failure, failure.summary
            self.notebook.failure = failure
            self.notebook.causes = ending.rivals
            self._settle_unit(folder)
            return "crashed", failure, failure.summary
        if known.is_same_as(failure, ending.rivals):
            return "crashed", failure, failure.summary
        return "other", failure, failure.summary

    def _settle_unit(self, folder: RunFolder) -> None:
        self.notebook.unit = measure(folder, 0.0).unit()
        self.notebook.profile = read_profile(folder)

    def _take_note(self, trial: Trial) -> None:
        """Tell the planner, and leave out changes that the program does not take."""
        investigation = self.investigation
        assert investigation is not None
        if trial.not_applied:
            for change in trial.not_applied:
                self._drop(change, "it did not take effect: what it changes was never reached")
            self._rebuild()
            return
        if trial.outcome == "other" and trial.changes and self._is_refused(trial):
            return
        self._tell(investigation, trial)
        if trial.outcome == "finished":
            length = trial.exposure(self.notebook.unit)
            investigation.run_length = max(investigation.run_length or 0.0, length) or None
        self._learn_overhead(investigation, trial)

    def _is_refused(self, trial: Trial) -> bool:
        """Whether the changes themselves kill the program; the trial then says nothing."""
        unit = self.notebook.unit
        same = [t for t in self.notebook.trials if t.changes == trial.changes]
        others = sum(t.outcome == "other" for t in same)
        mean = self.investigation.exposure_used if self.investigation else 0.0
        crashes = sum(t.outcome == "crashed" for t in self.notebook.trials) or 1
        is_early = trial.exposure(unit) <= _EARLY_SHARE * mean / crashes
        if not is_early and others < MOST_OTHER:
            return False
        self.notebook.trials[-1] = replace(trial, counts=False)
        if len(trial.changes) == 1:
            self._drop(
                trial.changes[0], f"with it the command dies of {trial.cause or 'another cause'}"
            )
            self._rebuild()
            return True
        cleared = {
            t.changes[0]
            for t in self.notebook.trials
            if len(t.changes) == 1 and t.outcome in ("crashed", "finished", "stopped")
        }
        self._suspects = [change for change in trial.changes if change not in cleared]
        if not self._suspects:
            names = ", ".join(trial.changes)
            self._drop(trial.changes[-1], f"together with others ({names}) the command dies")
            self._rebuild()
        return True

    def _drop(self, change: str, why: str) -> None:
        self.notebook.dropped[change] = why
        self.watcher.said(f"left out: {change}: {why}")

    def _refuse_what_cannot_apply(self) -> None:
        """What the command alone shows; the rest is known once a run is on record."""
        for change in self.asked:
            if change.kind == "own":
                continue
            reason = why_not(change, self.notebook.profile, self.command, self.environ)
            if reason is not None:
                raise UsageError(f"{change.text!r} does not apply: {reason}")

    def _learn_from_earlier_runs(self) -> None:
        runs = earlier_runs(self.store, self.command, self.cwd, self.diagnostician)
        newest = next((run for run in runs if run.has_failed), None)
        if newest is None:
            return
        failure = newest.ending.failure
        assert failure is not None
        self.notebook.failure = failure
        self.notebook.causes = newest.ending.rivals
        self._settle_unit(newest.folder)
        unit = self.notebook.unit
        crashes, survivals = lifetimes(runs, failure, unit)
        self.notebook.earlier_crashes, self.notebook.earlier_survivals = crashes, survivals
        self.notebook.earlier_runs = [run.folder.id for run in runs]
        count = len(self.notebook.earlier_crashes)
        self.watcher.said(f"seen in {count} earlier run{'s' * (count > 1)}: {failure.summary}")

    def _prepare(self) -> None:
        """The failure is known: settle on the changes and set the planner up."""
        notebook = self.notebook
        if not notebook.changes:
            changes = self.asked or default_changes(
                notebook.causes,
                self.diagnostician.catalogue,
                notebook.profile,
                self.command,
                self.environ,
            )
            for change in changes:
                reason = why_not(change, notebook.profile, self.command, self.environ)
                if reason is not None:
                    self._drop(change.text, reason)
                else:
                    notebook.changes.append(change.text)
        notebook.save()
        self._rebuild()

    def _rebuild(self) -> None:
        """The planner anew from the notebook, with the changes that are left."""
        notebook = self.notebook
        texts = [text for text in notebook.changes if text not in notebook.dropped]
        if not texts:
            notebook.save()
            reasons = "\n".join(f"{name}: {why}" for name, why in notebook.dropped.items())
            raise UsageError(
                "none of the changes applies to this command",
                f"{reasons or 'Name changes to try with --try.'}\n"
                "`rerail isolate --list -- CMD` shows what does.",
            )
        unit = notebook.unit
        given = constant_rate(Lifetimes.of(notebook.earlier_crashes, notebook.earlier_survivals))
        resolution = 1.0
        if unit == "seconds":
            times = notebook.earlier_crashes or [
                t.exposure(unit) for t in notebook.trials if t.outcome == "crashed"
            ]
            resolution = max(0.2, 0.1 * max(times, default=1.0))
        changes = [parse_change(text) for text in texts]
        self.investigation = Investigation(
            texts,
            priors=priors(changes, notebook.causes, self.diagnostician.catalogue),
            confidence=self.options.confidence,
            failure_model=replace(given, resolution=resolution),
        )
        for trial in notebook.trials:
            if trial.counts and set(trial.took_effect) <= set(texts):
                self._tell(self.investigation, trial)
                self._learn_overhead(self.investigation, trial)

    def _tell(self, investigation: Investigation, trial: Trial) -> None:
        if trial.outcome == "lost" or not trial.counts:
            return
        endings: dict[str, Ending] = {"crashed": "crashed", "other": "other"}
        ending = endings.get(trial.outcome, "survived")
        exposure = trial.exposure(self.notebook.unit)
        investigation.record(TrialResult.of(trial.took_effect, exposure, ending))

    def _learn_overhead(self, investigation: Investigation, trial: Trial) -> None:
        """What starting costs, so that many short trials are not taken for cheap."""
        distance = trial.distance
        if self.notebook.unit == "seconds" or not distance.steps_per_second:
            return
        starting = distance.seconds - distance.steps / distance.steps_per_second
        investigation.overhead = max(0.0, starting) * distance.steps_per_second

    def _check_memory(self, scheduler: Scheduler) -> None:
        peak = self.notebook.profile.peak_rss_bytes
        if self._jobs == 1 or not peak:
            return
        try:
            scheduler.admit(peak)
        except NotEnoughMemory as error:
            self._jobs = 1
            self.watcher.said(f"{error.message}: going on with one at a time")

    def _conclude(self) -> dict[str, Any]:
        self.notebook.seconds = self._seconds()
        document = answer_of(self.notebook, self.investigation, self._why_ended)
        self.notebook.answer = document
        self.notebook.save()
        keep_with_run(document, self.store)
        return document

    def _seconds(self) -> float:
        return self._spent_before + time.monotonic() - self._started
