"""Run a command until its fix is proven to the confidence asked, or refuted.

In: a command, the changes that are to be the fix (none: it is in the program), a confidence and a
budget. Out: the document of `verify --json`. Promises: "proven" only by the arithmetic of
`rerail.survival`; every run is in the store and counts when the same is asked again, so that Ctrl-C
and the end of the budget lose nothing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rerail.changes import Profile, exclusive_groups, parse_changes
from rerail.errors import RerailError, UsageError
from rerail.experiments.edits.versions import ProgramVersions
from rerail.experiments.environments.uv import EnvironmentNotBuilt
from rerail.experiments.planner.posterior import BEYOND_THE_STEP
from rerail.experiments.trials.exposure import Distance, Unit, exposure_in_words, measure
from rerail.experiments.trials.failure import Diagnostician
from rerail.experiments.trials.from_checkpoint import UNTIL_SEEN
from rerail.experiments.trials.live_view import Watcher
from rerail.experiments.trials.never_failed import clean_so_far
from rerail.experiments.trials.outcome import Wanted
from rerail.experiments.trials.start import Start
from rerail.experiments.trials.trial import changes_in_words
from rerail.experiments.trials.trial_driver import TrialDriver, UnderWay
from rerail.experiments.trials.trial_setup import TrialOptions, TrialSetup
from rerail.experiments.verification.answer import answer_of, keep_with_run
from rerail.experiments.verification.baseline import (
    MARK,
    Baseline,
    baseline_of,
    read_baseline,
    runs_made_for,
    verification_key,
)
from rerail.experiments.verification.laboratory import Laboratory, TriedRun
from rerail.experiments.verification.proof import Needed, luck_of, needed_for
from rerail.experiments.verification.view import RunNow, proof_lines, run_lines
from rerail.scheduling import open_scheduler
from rerail.store import RunFolder, Store
from rerail.survival import FailureModel
from rerail.wording import counted, listed, percent, seconds_in_words

# Unchanged runs made in order to see the failure, where none is on record.
MOST_REFERENCES = 5
# A repeat of the one crash on record is given this many times its length to come.
REPEAT_LENGTH = 5.0
MOST_OTHER = 2
MOST_LOST = 2
MOST_OVERFULL = 2


@dataclass(frozen=True)
class VerifyOptions(TrialOptions):
    confidence: float = 0.95
    budget_seconds: float = 3600.0


class _Ended(Exception):
    """Nothing more can be learnt, and why."""


def verify(
    command: Sequence[str],
    changes: Sequence[str],
    store: Store,
    options: VerifyOptions,
    watcher: Watcher,
) -> dict[str, Any]:
    """Is the failure gone with these changes? The document of `verify --json`."""
    return VerificationSession(command, changes, store, options, watcher).run()


class VerificationSession:
    def __init__(
        self,
        command: Sequence[str],
        changes: Sequence[str],
        store: Store,
        options: VerifyOptions,
        watcher: Watcher,
    ) -> None:
        self.command = tuple(command)
        self.changes = parse_changes(changes)
        for group in exclusive_groups(self.changes):
            raise UsageError(
                f"{listed([repr(text) for text in group])} are values of one thing",
                "A fix has one value of each: give --with once for it.",
            )
        self.store = store
        self.options = options
        self.baseline: Baseline | None = None
        self.references: list[TriedRun] = []  # unchanged
        self.tried: list[TriedRun] = []  # with the fix
        self.needed: Needed | None = None
        self.ended_because = ""
        self._watcher = watcher
        self._started = time.monotonic()
        environ = dict(os.environ)
        cwd = str(Path.cwd())
        program = ProgramVersions.asked_for(changes, None, Path(cwd), store.home, watcher.said)
        self._what = [*(change.text for change in self.changes), *program.marks]
        self._key = verification_key(self.command, cwd, self._what)
        setup = TrialSetup.of_experiment(
            self.command,
            cwd,
            environ,
            store,
            self._key,
            options,
            watcher.said,
            lambda: self.seconds_left,
            program,
            ask=watcher.may_go_on,
        )
        driver = TrialDriver[UnderWay](open_scheduler(), lambda: self.seconds_left, watcher.said)
        self._lab = Laboratory(cwd, driver, Diagnostician(), setup, options.stall_seconds)
        self.start: Start | None = None  # where runs begin, if there are checkpoints

    def run(self) -> dict[str, Any]:
        self.baseline = read_baseline(
            self.store,
            self.command,
            self._lab.cwd,
            self._lab.diagnostician,
            self._key,
            is_changed=bool(self.changes),
        )
        if self.baseline is None and not self.changes:
            raise UsageError(
                "no run of this command that failed is on record: nothing to compare with",
                "A fix is measured against the failure. Record it first: rerail run -- CMD",
            )
        try:
            self._refuse_what_cannot_apply()
            self._see_the_failure()
            self._test_the_checkpoint()
            self._repeat_the_failure()
            self._count_earlier_runs()
            self._prove()
        except _Ended as ended:
            self.ended_because = str(ended)
        except KeyboardInterrupt:
            self.ended_because = "interrupted"
        except EnvironmentNotBuilt as error:
            self.ended_because = str(error)
        finally:
            self._lab.driver.scheduler.close()
            self._lab.setup.close()
        document = answer_of(self, time.monotonic() - self._started)
        keep_with_run(document, self.store)
        return document

    @property
    def seconds_left(self) -> float:
        return self.options.budget_seconds - (time.monotonic() - self._started)

    @property
    def outputs(self) -> str | None:
        """The folder of what runs wrote, if it was kept."""
        kept = self._lab.setup.shield.kept
        return str(kept) if kept is not None else None

    @property
    def known(self) -> Baseline:
        assert self.baseline is not None
        return self.baseline

    @property
    def luck(self) -> float:
        """That the unchanged program would have come through all clean runs so far."""
        return luck_of(self._model(), self.clean()) if self.baseline else 1.0

    def clean(self) -> list[float]:
        """How long each run with the fix lived without the failure."""
        return [
            each.trial.exposure(self.known.unit)
            for each in self.tried
            if each.trial.outcome in ("finished", "stopped", "other") and not each.trial.not_applied
        ]

    @property
    def is_refuted(self) -> bool:
        return any(
            each.trial.outcome == "crashed" and not each.trial.not_applied for each in self.tried
        )

    @property
    def is_proven(self) -> bool:
        is_far_enough = self.longest_clean >= self.least_length
        return not self.is_refuted and is_far_enough and self.luck <= 1.0 - self.options.confidence

    @property
    def least_length(self) -> float:
        """How far a run has to come before a lack is gone, and does not only come later."""
        if self.baseline is None or not self.baseline.failure.is_a_lack:
            return 0.0
        model = self._model()
        return BEYOND_THE_STEP * model.past_the_step if model.is_at_a_step else 0.0

    @property
    def longest_clean(self) -> float:
        """Without an end if a run with the fix came to its own end."""
        trials = [each.trial for each in self.tried if not each.trial.not_applied]
        if any(trial.outcome == "finished" for trial in trials):
            return math.inf
        return max(self.clean(), default=0.0)

    # -- before -------------------------------------------------------------------------------

    def _refuse_what_cannot_apply(self) -> None:
        """rerail's own changes can be judged only once a run is on record."""
        for change in self.changes:
            if change.kind == "own" and self.baseline is None:
                continue
            profile = self.baseline.profile if self.baseline else Profile()
            reason = self._lab.setup.why_not(change, profile)
            if reason is not None:
                raise UsageError(f"{change.text!r} does not apply: {reason}")

    def _see_the_failure(self) -> None:
        if self.baseline is not None:
            return
        self._watcher.said("no failed run of this command, as it is now, is on record")
        if self._lab.setup.checkpoints is not None:
            self._watcher.said(UNTIL_SEEN)
        for _ in range(MOST_REFERENCES):
            found = self._run_unchanged("to see the failure", limit=None)
            if found.failure is not None and found.folder is not None:
                self.baseline = baseline_of(found.folder, found.failure)
                for each in self.references:
                    self._note_reference(each)
                self._refuse_what_cannot_apply()
                return
        raise _Ended(clean_so_far([each.trial for each in self.references]).rstrip("."))

    def _test_the_checkpoint(self) -> None:
        """Whether the failure comes from a checkpoint too, so that runs may begin there."""
        checkpoints, known = self._lab.setup.checkpoints, self.known
        if checkpoints is None:
            return
        folder = RunFolder(self.store.runs / known.failure.run)
        if not self.changes:
            why = "the fix is in the program, so nobody can see any more where it fails from"
            self.start = checkpoints.begin_anew(folder, why)
            return
        crash = measure(folder, folder.info().elapsed_seconds or 0.0).of(known.unit, died=True)
        found: list[TriedRun] = []
        self.start = checkpoints.choose(folder, known.failure, crash, known.unit)
        while self.start.state == "testing":
            why = f"whether it fails from {self.start.checkpoint} too"
            found.append(self._run_unchanged(why, self.start.limit(known.unit)))
            trial = found[-1].trial
            self.start = checkpoints.take_note(trial, folder, known.failure, known.unit)
        known.begin_at(self.start)
        for each in found:
            # Clean steps were run wherever they were run; a crash counts where runs begin.
            has_crashed = each.trial.outcome == "crashed"
            if self.start.state == "adopted" or (
                not has_crashed and each.trial.outcome in ("stopped", "finished")
            ):
                self._note_reference(each)
        if self.start.state == "adopted":
            what = [*self._what, self.start.identity]
            self._key = verification_key(self.command, self._lab.cwd, what)

    def _repeat_the_failure(self) -> None:
        """After one crash 95 % takes 19 times as long; a second one is cheap, and tells where."""
        if self.changes and len(self.known.crashes) == 1:
            limit = REPEAT_LENGTH * self.known.crashes[0]
            found = self._run_unchanged("whether it comes back, and where", limit=limit)
            self._note_reference(found)

    def _run_unchanged(self, why: str, limit: float | None) -> TriedRun:
        def is_enough(distance: Distance) -> bool:
            unit: Unit = self.baseline.unit if self.baseline else "seconds"
            exposure = distance.of(unit, died=False)
            question = f"Does it fail without the change? ({why})"
            pace = _pace(distance, unit)
            self._watcher.moved(RunNow(run_lines(question, exposure, limit, unit, pace)))
            return limit is not None and exposure >= limit

        known = self.baseline.distances if self.baseline else []
        about = f" (about {seconds_in_words(known[0].seconds)})" if known else ""
        self._watcher.said(f"first a run without the change{about}: {why}")
        settings = {"reference": self._key}
        found = self._lab.try_once((), settings, self._wanted(), is_enough)
        self.references.append(found)
        self._after(found)
        return found

    def _note_reference(self, found: TriedRun) -> None:
        if found.folder is None:
            return
        died = found.trial.outcome == "crashed"
        self.known.add(found.folder, found.trial.distance, died=died)

    def _count_earlier_runs(self) -> None:
        """Of the same verification, asked before."""
        if self.options.is_fresh:
            return
        for folder in runs_made_for(self.store, self._key):
            try:
                found = self._lab.judge(folder, self.changes, self._wanted())
            except RerailError:
                continue
            if found.trial.outcome == "crashed" and not self.changes:
                # Whatever was mended since (a library, say), these were from before.
                for each in (*self.tried, found):
                    self._note_reference(each)
                self.tried.clear()
            else:
                self.tried.append(found)
        self._counts_in_steps_now()
        if self.is_refuted:
            self._watcher.said("refuted before; --fresh asks again")
        elif self.tried:
            self._watcher.said(f"goes on after {counted(len(self.tried), 'run')} on record")

    # -- proving ------------------------------------------------------------------------------

    def _prove(self) -> None:
        run_length = max(self.known.finished, default=0.0) or None
        self._announce(run_length)
        while not self._is_decided():
            clean, model = self.clean(), self._model()

            def is_enough(
                distance: Distance,
                clean: Sequence[float] = clean,
                model: FailureModel = model,
            ) -> bool:
                exposure = distance.of(self.known.unit, died=False)
                luck = luck_of(model, [*clean, exposure])
                self._show(sum(clean) + exposure, luck, distance)
                return luck <= 1.0 - self.options.confidence and exposure >= self.least_length

            settings = {MARK: self._key}
            found = self._lab.try_once(self.changes, settings, self._wanted(), is_enough)
            self.tried.append(found)
            self._after(found)
            if self._counts_in_steps_now():
                run_length = max(self.known.finished, default=0.0) or None
                self.needed = self._still_possible(run_length)
            if found.trial.outcome == "finished":
                length = found.trial.exposure(self.known.unit)
                run_length = max(run_length or 0.0, length) or None
                self.needed = self._still_possible(run_length)

    def _counts_in_steps_now(self) -> bool:
        """Go over to steps if the failure, seen in seconds alone, came before the first."""
        clean = [e.trial for e in self.tried if e.trial.outcome in ("finished", "stopped")]
        if self.known.unit != "seconds" or self.start is not None:
            return False
        if not any(trial.distance.counts_steps for trial in clean):
            return False
        self.known.count_in_steps()
        return True

    def _wanted(self) -> Wanted:
        if self.baseline is None:
            return Wanted()
        return Wanted(self.baseline.failure, self.baseline.unit, self.baseline.profile)

    def _model(self) -> FailureModel:
        return self.known.model(can_repeat=bool(self.changes))

    def _still_possible(self, run_length: float | None) -> Needed:
        model = self._model()
        needed = needed_for(model, self.options.confidence, run_length)
        if not needed.is_possible:
            raise _Ended(needed.reason)
        least = min(self.least_length, run_length or math.inf)
        if needed.exposure < least:
            later = f"{needed.reason}; {BEYOND_THE_STEP:g} times as far, as it may only come later"
            needed = replace(needed, exposure=least, reason=later)
        if model.kind == "constant-rate":
            return replace(needed, reason=f"{needed.reason} {self.known.unit}")
        return needed

    def _is_decided(self) -> bool:
        if self.is_refuted:
            return True
        trials = [each.trial for each in self.tried]
        without = sorted({text for trial in trials for text in trial.not_applied})
        if without:
            raise _Ended(f"{listed(without)} did not take effect: what it changes was not reached")
        others = [trial for trial in trials if trial.outcome == "other"]
        if self.is_proven:
            return True
        if len(others) >= MOST_OTHER:
            raise _Ended(
                f"with the fix it ends otherwise: {others[-1].cause or others[-1].summary}"
            )
        lost = [trial for trial in trials if trial.outcome == "lost"]
        if len(lost) >= MOST_LOST:
            raise _Ended(f"runs left no usable record: {lost[-1].summary}")
        return False

    def _announce(self, run_length: float | None) -> None:
        """Before the first run: what was seen, and how long the proof will take."""
        known = self.known
        cause = f" ({known.failure.cause})" if known.failure.cause else ""
        at = listed([exposure_in_words(each, known.unit) for each in known.crashes[:6]])
        self._watcher.said(f"{known.failure.summary}{cause}")
        self._watcher.said(f"seen {counted(len(known.crashes), 'time')}: after {at}")
        self.needed = self._still_possible(run_length)
        needed = self.needed
        done = sum(self.clean())
        runs = f"{needed.runs} clean runs of " if needed.runs > 1 else "a clean run of "
        text = f"{percent(self.options.confidence, 1)} takes {runs}"
        text += exposure_in_words(needed.exposure, known.unit)
        seconds = known.seconds_for(needed.exposure, needed.runs)
        if seconds is not None and known.unit != "seconds":
            text += f", about {seconds_in_words(seconds)}"
        self._watcher.said(f"{text}: {needed.reason}")
        if done:
            self._watcher.said(f"of which {exposure_in_words(done, known.unit)} are done")
        elif seconds is not None and seconds > self.options.budget_seconds:
            budget = seconds_in_words(self.options.budget_seconds)
            self._watcher.said(f"that is more than the budget of {budget}: see --budget")

    def _show(self, exposure: float, luck: float, distance: Distance) -> None:
        assert self.needed is not None
        unit, options = self.known.unit, self.options
        question = "Does it still fail as it is now?"
        if self.changes:
            question = f"Does it still fail {changes_in_words([c.text for c in self.changes])}?"
        used = time.monotonic() - self._started
        self._watcher.moved(
            RunNow(
                [
                    *run_lines(question, exposure, self.needed.total, unit, _pace(distance, unit)),
                    *proof_lines(luck, options.confidence, used, options.budget_seconds),
                ]
            )
        )

    def _after(self, found: TriedRun) -> None:
        trial = found.trial
        unit = self.known.unit if self.baseline else trial.distance.unit()
        far = exposure_in_words(trial.exposure(unit), unit)
        who = changes_in_words(trial.changes)
        if not self.changes and found in self.tried:
            who = "as it is now"
        self._watcher.said(f"{who}: {trial.in_words(far)}")
        if found.stopped == "interrupted":
            raise KeyboardInterrupt
        if found.stopped == "budget":
            raise _Ended("the time of the budget was used up")
        if self._lab.driver.overfull >= MOST_OVERFULL:
            raise _Ended("runs wrote more than there is room for")


def _pace(distance: Distance, unit: Unit) -> float | None:
    """Exposure per second, as far as it is known."""
    return 1.0 if unit == "seconds" else distance.steps_per_second if unit == "steps" else None
