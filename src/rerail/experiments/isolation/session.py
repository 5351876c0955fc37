"""The investigation at work: runs trials until the planner is sure, and keeps what was learnt.

In: a command and the changes to try. Out: the contract's document. Promises: every trial is a
recorded run in the store; the journal is saved after each, and an interruption (Ctrl-C, the
budget) stops what runs, counts it for what it is worth, and keeps everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.changes import default_changes, parse_change, parse_changes
from rerail.errors import RerailError, UsageError
from rerail.experiments.edits.versions import ProgramVersions
from rerail.experiments.environments.uv import EnvironmentNotBuilt
from rerail.experiments.isolation.answer import answer_of, keep_with_run
from rerail.experiments.isolation.options import IsolateOptions, PlannedTrial
from rerail.experiments.isolation.planner_setup import (
    build_planner,
    build_search,
    least_exposure,
    mean_exposure,
    next_plan,
    tell,
)
from rerail.experiments.isolation.raise_hazard import Raising
from rerail.experiments.isolation.refusals import Refusals, nothing_tells
from rerail.experiments.isolation.reproducing import reproduce
from rerail.experiments.isolation.start_test import StartTest
from rerail.experiments.isolation.trial_view import TrialsNow, asked_by, what_came_of
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Plan
from rerail.experiments.reproducer.files import refuse_if_taken
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.from_checkpoint import UNTIL_SEEN
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.judge import Judge
from rerail.experiments.trials.live_view import Silent, Watcher
from rerail.experiments.trials.never_failed import clean_among, clean_so_far
from rerail.experiments.trials.trial import Trial, changes_in_words
from rerail.experiments.trials.trial_driver import TrialDriver
from rerail.experiments.trials.trial_setup import TrialSetup
from rerail.scheduling import NotEnoughMemory, open_scheduler
from rerail.store import Store

# A failure that comes once in ten runs shows in 30 with 96 %.
MOST_CLEAN_REFERENCES = 30
CLEAN_BEFORE_ASKING = 3
MOST_LOST = 3
MOST_OVERFULL = 2
_LEAST_STALL_SECONDS = 60.0


def investigate(
    command: Sequence[str],
    tries: Sequence[str],
    store: Store,
    options: IsolateOptions | None = None,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Which of these changes removes the failure? The document of `isolate --json`."""
    return InvestigationSession(
        command, tries, store, options or IsolateOptions(), watcher or Silent()
    ).run()


class InvestigationSession:
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
        self.program = ProgramVersions.asked_for(
            tries, options, Path(self.cwd), store.home, watcher.said
        )
        self.asked = parse_changes([*tries, *self.program.changes])
        if options.scheduler != "local" and any(c.needs_environment for c in self.asked):
            raise UsageError(
                "versions can be tried on this machine only",
                "Their environments are built here: leave --scheduler out.",
            )
        if options.reproducer is not None:
            refuse_if_taken(options.reproducer)
        self.journal = TrialJournal.open(
            store.home,
            self.command,
            self.cwd,
            [*(change.text for change in self.asked), *self.program.marks],
            is_fresh=options.is_fresh,
        )
        self.judge = Judge(
            self.journal, has_neighbours=options.jobs > 1 or options.scheduler != "local"
        )
        self.investigation: Investigation | None = None
        self.setup = TrialSetup.of_experiment(
            self.command,
            self.cwd,
            self.environ,
            store,
            self.journal.key,
            options,
            watcher.said,
            lambda: self.seconds_left,
            self.program,
            options.jobs,
            is_local=options.scheduler == "local",
            ask=watcher.may_go_on,
        )
        asked = {c.package: c.value for c in self.asked if c.kind == "package"}
        self.setup.environments.peers = asked
        self._refusals = Refusals(self.journal, watcher.said, self.setup)
        self.start_test = StartTest(self.journal, store, self.setup.checkpoints)
        self._raising = Raising(
            self.journal, options.raises_hazard, options.budget_seconds, watcher.said
        )
        self._jobs = options.jobs
        self._started = time.monotonic()
        self._spent_before = self.journal.seconds
        self._trials_before = len(self.journal.trials)
        self._clean_before = len(self._clean_references())
        self._was_asked = False  # whether to go on with a command that does not fail
        self._why_ended = ""
        self._nothing_tells = ""  # why no change is worth a trial
        self.driver: TrialDriver[PlannedTrial]  # while it works

    def run(self) -> dict[str, Any]:
        try:
            return self._run()
        finally:
            self.setup.close()

    def _run(self) -> dict[str, Any]:
        known = self.journal.answer
        is_final = known is not None and known["status"] in ("confirmed", "none-of-these")
        if known is not None and is_final and known["confidence"] >= self.options.confidence:
            self.watcher.said("answered before; --fresh asks again")
            document = known
        else:
            document = self._inquire()
        folder = self.options.reproducer if self._why_ended != "interrupted" else None
        if folder is not None and reproduce(self, document, folder):
            self._keep(document)
        return document

    def _inquire(self) -> dict[str, Any]:
        self._refuse_what_cannot_apply()
        if self.journal.trials:
            count = len(self.journal.trials)
            self.watcher.said(f"goes on after {count} trial{'s' * (count > 1)} on record")
        elif self.journal.failure is None and self.program.is_as_recorded:
            seen = self.judge.learn_from_earlier_runs(self.store, self.cwd)
            if self.journal.failure is not None:
                runs = f"{seen} earlier run{'s' * (seen > 1)}"
                self.watcher.said(f"seen in {runs}: {self.journal.failure.summary}")
        if self.journal.failure is None and self.setup.checkpoints is not None:
            self.watcher.said(UNTIL_SEEN)
        scheduler = open_scheduler(self.options.scheduler, self.options.jobs)
        self.driver = TrialDriver(scheduler, lambda: self.seconds_left, self.watcher.said)
        was_refused = False
        try:
            if self.journal.failure is not None:
                self._prepare()
            self._work()
        except KeyboardInterrupt:
            self._why_ended = "interrupted"
            for each in self.driver.stop_all():
                with suppress(RerailError, OSError):
                    self._finish(each)
        except UsageError:
            was_refused = not self.journal.trials  # an earlier answer is worth more than none
            raise
        finally:
            scheduler.close()
            document = self._conclude() if not was_refused else {}
        return document

    @property
    def under_way(self) -> list[PlannedTrial]:
        return self.driver.under_way

    @property
    def seconds_left(self) -> float:
        return self.options.budget_seconds - (time.monotonic() - self._started)

    @property
    def trials_left(self) -> int | None:
        if self.options.max_trials is None:
            return None
        done = len(self.journal.trials) - self._trials_before
        return max(0, self.options.max_trials - done - len(self.under_way))

    def _work(self) -> None:
        while True:
            while len(self.under_way) < self._jobs:
                plan = self._next_plan()
                if plan is None:
                    break
                if self.under_way:
                    self._check_memory()
                    if len(self.under_way) >= self._jobs:
                        break
                self._start(plan)
            if not self.under_way:
                return
            for each in self.driver.ended(self.judge.how_far, self._is_enough):
                self._finish(each)
            if self.under_way:
                self.watcher.moved(TrialsNow(self))

    def _next_plan(self) -> Plan | None:
        if self.seconds_left <= 0.0:
            self._why_ended = self._why_ended or "the time of the budget was used up"
            return None
        if self.trials_left == 0:
            self._why_ended = self._why_ended or f"{self.options.max_trials} trials were made"
            return None
        if sum(trial.outcome == "lost" for trial in self.journal.trials) >= MOST_LOST:
            self._why_ended = "trials left no usable record"
            return None
        if self.driver.overfull >= MOST_OVERFULL:
            self._why_ended = "trials wrote more than there is room for"
            return None
        if self.journal.failure is None:
            return self._plan_to_see_it()
        if self._nothing_tells:
            return None
        running = [each.plan for each in self.under_way]
        if self.start_test.under_test is not None:
            return None if running else self.start_test.plan()
        raised = self._raising.next_plan(running)
        if raised is not None:
            return raised
        # In seconds a suspect has to be past the start, where a program refuses.
        limit = least_exposure(self.journal) if self.journal.unit == "seconds" else 1.0
        suspect = self._refusals.next_suspect(limit)
        if suspect is not None:
            return suspect
        investigation = self.investigation
        assert investigation is not None
        return next_plan(
            investigation,
            self.journal,
            running,
            beside=self.beside(None),
            seek_alternatives=self.options.seeks_alternatives,
        )

    def _plan_to_see_it(self) -> Plan | None:
        if self.under_way:
            return None  # the first run tells how much memory one takes
        clean = len(self._clean_references())
        if clean >= MOST_CLEAN_REFERENCES or not self._may_go_on(clean):
            self._why_ended = f"it ran {clean} times without failing"
            return None
        return Plan((), float("inf"), "to see the failure without any change")

    def _clean_references(self) -> list[Trial]:
        return clean_among([trial for trial in self.journal.trials if not trial.changes])

    def _may_go_on(self, clean: int) -> bool:
        """After so many clean runs it is for the user to say whether more are worth the time."""
        if self._was_asked or clean < self._clean_before + CLEAN_BEFORE_ASKING:
            return True
        self._was_asked = True
        self.watcher.said(clean_so_far(self.journal.trials))
        question = f"Go on, up to {MOST_CLEAN_REFERENCES} runs?"
        return self.options.goes_on_unasked or self.watcher.may_go_on(question)

    def _start(self, plan: Plan) -> None:
        number = len(self.journal.trials) + len(self.under_way) + 1
        changes = [parse_change(text) for text in plan.changes]
        raised = [parse_change(text) for text in self._raising.for_trials]
        both = [*raised, *changes]
        try:
            ready = self.setup.ready(both, self.journal.profile)
        except EnvironmentNotBuilt as error:
            self._refusals.leave_out(changes[-1].text, str(error))
            self._set_planner_up()
            return
        if self.start_test.was_given_up():
            self._go_on()
        self.journal.environments.update(self.setup.environments.told)
        task = ready.task(
            f"isolate {self.journal.key} trial {number} {os.urandom(3).hex()}",
            self.stall_seconds(),
            {"investigation": self.journal.key, "raised": [change.text for change in raised]},
        )
        texts = tuple(change.text for change in both)
        whole = replace(plan, changes=texts)
        question, meaning = asked_by(whole, plan, self)
        if not self.watcher.redraws:
            self.watcher.said(f"trial {number}: {question}" + (f" {meaning}" if meaning else ""))
        trial = PlannedTrial(
            ready,
            f"trial {number}",
            number=number,
            plan=plan,
            changes=changes,
            raised=raised,
            question=question,
            meaning=meaning,
        )
        self.driver.start(trial, task)

    def _is_enough(self, each: PlannedTrial, distance: Distance) -> bool:
        each.has_come(distance.of(self.journal.unit, died=False))
        if self.investigation is None:
            return False  # until the failure was seen, runs go to their end
        return each.exposure >= each.plan.exposure_limit or self._has_said_enough(each)

    def _has_said_enough(self, each: PlannedTrial) -> bool:
        assert self.investigation is not None
        if self.start_test.under_test is not None:
            return False
        if each.raised_by != self.journal.raised:
            return False  # what is being measured is the raise, of which the planner knows nothing
        beside = self.beside(each)
        exposure = self._counted(each)
        if not exposure and (not beside or self.options.seeks_alternatives):
            return False
        return self.investigation.should_stop(exposure, each.plan, beside)

    def _counted(self, each: PlannedTrial) -> float:
        """What a trial under way has said: nothing before the failure could have come."""
        return each.exposure if each.exposure >= least_exposure(self.journal) else 0.0

    def beside(self, each: PlannedTrial | None) -> list[Plan]:
        """The other trials under way of which the planner knows, with how far they came."""
        raised = self.journal.raised
        return [
            replace(other.plan, done=self._counted(other))
            for other in self.under_way
            if other is not each and other.raised_by == raised
        ]

    def _finish(self, each: PlannedTrial) -> None:
        if each.stopped == "budget":
            self._why_ended = "the time of the budget was used up"
        trial = self._as_planned(each, self.judge.judge(each, takes_any=not each.plan.changes))
        each.leave()
        self.journal.trials.append(trial)
        self.journal.seconds = self._seconds()
        if self.journal.failure is not None:
            if self.investigation is None:
                self._prepare()  # it was this trial that showed the failure
            else:
                self._take_note(trial)
        self.journal.save()
        who = f", {changes_in_words((*trial.raised, *trial.changes))}"
        who = who if self.watcher.redraws else ""
        self.watcher.said(f"trial {each.number}{who}: {what_came_of(trial)}")

    def _as_planned(self, each: PlannedTrial, trial: Trial) -> Trial:
        """With what raised it apart from its changes. Of a raise that is known to work, all of it:
        in a trial that ended early, or changed the same place, there need be no trace of it."""
        missing, raised = trial.not_applied, each.raised_by
        if raised != self.journal.raised:
            raised = tuple(text for text in raised if text not in missing)
        return replace(
            trial,
            changes=each.plan.changes,
            reason=each.plan.reason,
            not_applied=tuple(text for text in missing if text in each.plan.changes),
            raised=raised,
        )

    def _take_note(self, trial: Trial) -> None:
        """Tell the planner, and leave out changes that the program does not take."""
        if self.start_test.under_test is not None:
            self.start_test.take_note(trial)
            self._go_on()
            return
        if trial.raised != self.journal.raised:
            if self._raising.take_note(trial):
                self._set_planner_up()
            return
        mean = mean_exposure(self.investigation, self.journal)
        is_by_clock = self.journal.unit == "seconds" and trial.outcome == "crashed"
        if self._refusals.find(trial, mean) or self.judge.count_in_steps(
            trial, self.store, self.cwd
        ):
            self._set_planner_up()
        elif is_by_clock and not trial.changes:
            self._set_planner_up()  # how exactly its time is known has changed
        elif self.investigation is not None:
            tell(self.investigation, trial, self.journal)

    def _refuse_what_cannot_apply(self) -> None:
        """What the command alone shows; the rest is known once a run is on record."""
        plain = [change for change in self.asked if change.kind != "own"]
        applying = self._refusals.those_that_apply(plain)
        if self.asked and not applying and len(plain) == len(self.asked):
            text, reason = next(iter(self.journal.dropped.items()))
            raise UsageError(f"{text!r} does not apply: {reason}")

    def _prepare(self) -> None:
        """The failure is known: settle on the changes and set the planner up."""
        journal = self.journal
        if not journal.changes:
            changes = self.asked or default_changes(
                journal.causes,
                self.judge.diagnostician.catalogue,
                journal.profile,
                self.command,
                self.environ,
                only_named=journal.failure is not None and journal.failure.is_of_the_program,
            )
            journal.changes = self._refusals.those_that_apply(changes)
            if journal.failure is not None and not changes and journal.failure.is_of_the_program:
                self._nothing_tells = nothing_tells(journal.failure)
                return
        self.start_test.settle()
        self._go_on()

    def _go_on(self) -> None:
        """Where trials begin is decided, or about to be tested."""
        if self.start_test.under_test is None:
            self._raising.consider(self.environ)
        self.journal.save()
        self._set_planner_up()

    def _set_planner_up(self) -> None:
        """Anew from the journal, with the changes that are left."""
        catalogue = self.judge.diagnostician.catalogue
        build = build_search if self.options.bisect is not None else build_planner
        planner = build(self.journal, self.options.confidence, catalogue, self.options.seed)
        if planner is None:
            self.journal.save()
            self._refusals.refuse_all()
        self.investigation = planner

    def _check_memory(self) -> None:
        """Before a further trial beside those that run; the first run told what one takes."""
        try:
            self.driver.scheduler.admit(self.journal.profile.peak_rss_bytes)
        except NotEnoughMemory as error:
            self._jobs = min(self._jobs, error.fits)
            self.watcher.said(f"{error.message}: going on with {self._jobs} at a time")

    def stall_seconds(self) -> float | None:
        """A trial that is silent for ten times as long as any before took in all is stuck."""
        if self.options.stall_seconds is not None:
            return self.options.stall_seconds
        took = [trial.distance.seconds for trial in self.journal.trials]
        return max(_LEAST_STALL_SECONDS, 10.0 * max(took)) if took else None

    def _conclude(self) -> dict[str, Any]:
        self.journal.seconds = self._seconds()
        document = answer_of(
            self.journal, self.investigation, self._why_ended, self._raising.answer()
        )
        document["reason"] = self._nothing_tells or document["reason"]
        document.update(self.program.about_the_answer(document, self.investigation))
        kept = self.setup.shield.kept
        document["outputs"] = str(kept) if kept is not None else None
        self._keep(document)
        return document

    def _keep(self, document: dict[str, Any]) -> None:
        self.journal.answer = document
        self.journal.save()
        keep_with_run(document, self.store)

    def _seconds(self) -> float:
        return self._spent_before + time.monotonic() - self._started
