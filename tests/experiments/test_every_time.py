"""A failure that came in every run is decided in a few trials, whatever the clock says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.experiments.isolation.planner_setup import build_planner, next_plan
from rerail.experiments.planner.observation import Plan
from rerail.experiments.planner.verdict import Verdict
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.judge import Judge
from rerail.experiments.trials.trial import Trial
from rerail.store import Store

SEGFAULT = Failure("native-segfault", "signal", "SIGSEGV", None, None, "it crashed", "")
HANG = Failure("deadlock", "hang", None, None, None, "it hung", "")
MOST_TRIALS = 6


def investigated(
    home: Path, failure: Failure, failed_at: list[float], ends_at: float, steps: int = 0
) -> tuple[TrialJournal, Verdict]:
    """Trials of a command that fails without GOOD=1, and with it ends well after `ends_at`."""
    journal = TrialJournal.open(home, ["python", "t.py"], "/", ["GOOD=1"], is_fresh=True)
    judge = Judge(journal)
    journal.failure, journal.changes = failure, ["GOOD=1"]
    times = itertools.cycle(failed_at)

    def run(plan: Plan) -> Trial:
        if not plan.changes:
            return Trial((), "crashed", Distance(0, 0, next(times)))
        far = min(plan.exposure_limit, ends_at if journal.unit == "seconds" else steps)
        share = far / (ends_at if journal.unit == "seconds" else steps)
        distance = Distance(round(share * steps), 0, share * ends_at)
        return Trial(plan.changes, "finished" if share == 1.0 else "stopped", distance)

    journal.trials.append(run(Plan((), math.inf, "")))
    while True:
        planner = build_planner(journal, 0.99, load_catalogue())
        assert planner is not None
        plan = next_plan(planner, journal, [], beside=[], seek_alternatives=False)
        if plan is None or len(journal.trials) > 2 * MOST_TRIALS:
            return journal, planner.verdict()
        trial = replace(run(plan), reason=plan.reason)
        journal.trials.append(trial)
        judge.count_in_steps(trial, Store(home), "/")


@pytest.mark.parametrize(
    ("failure", "failed_at", "ends_at", "steps"),
    [
        (HANG, [600.0, 300.0], 10.0, 0),  # how long it lived before it hung is hardly known
        (HANG, [14.2, 11.3, 10.2], 9.0, 40),
        (SEGFAULT, [5.0, 5.1, 5.3], 7.0, 0),
        (SEGFAULT, [5.0, 7.0, 3.0], 9.0, 40),  # before the first step: the start takes its time
    ],
)
def test_a_failure_of_every_run_is_decided_soon(
    tmp_path: Path, failure: Failure, failed_at: list[float], ends_at: float, steps: int
) -> None:
    journal, verdict = investigated(tmp_path, failure, failed_at, ends_at, steps)
    assert verdict.status == "confirmed" and verdict.confidence >= 0.99
    assert len(journal.trials) <= MOST_TRIALS
    assert journal.unit == ("steps" if steps else "seconds")


def test_crashes_at_random_times_are_not_taken_for_one_place(tmp_path: Path) -> None:
    """They take the clean stretch that a rate demands."""
    journal, _ = investigated(tmp_path, SEGFAULT, [5.0, 9.0, 2.0], 7.0)
    assert len(journal.trials) > MOST_TRIALS


def test_printed_steps_do_not_say_that_a_crash_made_none(tmp_path: Path) -> None:
    """What a program has printed may be lost with its buffer when it crashes."""
    journal = TrialJournal.open(tmp_path, ["python", "t.py"], "/", [], is_fresh=True)
    clean = Trial(("GOOD=1",), "finished", Distance(40, 0, 9.0, is_printed=True))
    assert not Judge(journal).count_in_steps(clean, Store(tmp_path), "/")
    counted = replace(clean, distance=Distance(40, 0, 9.0))
    assert Judge(journal).count_in_steps(counted, Store(tmp_path), "/")


def test_steps_of_a_run_that_failed_stay_as_they_are(tmp_path: Path) -> None:
    journal = TrialJournal.open(tmp_path, ["python", "t.py"], "/", [], is_fresh=True)
    failed = Trial((), "crashed", Distance(7, 0, 3.0))
    assert not Judge(journal).count_in_steps(failed, Store(tmp_path), "/")
    assert journal.unit == "seconds"
