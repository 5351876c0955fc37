"""Trials at the same time: what is asked beside others, and when all of them have said enough."""

import math
import random
from dataclasses import replace

import pytest

from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Plan, TrialResult
from rerail.survival import classify

CHANGES = [f"x{i}" for i in range(8)]
MEAN = 100.0


def start(crashes=30, **settings):
    times = [-MEAN * math.log1p(-(n + 0.5) / crashes) for n in range(crashes)]
    return Investigation(CHANGES, failure_model=classify(times), **settings)


def fill(investigation, slots, running=()):
    plans = list(running)
    while len(plans) < slots:
        plan = investigation.next_trial(running=plans)
        if plan is None:
            break
        plans.append(plan)
    return plans


def test_with_dear_starts_slots_ask_different_questions():
    plans = fill(start(overhead=MEAN), 4)
    assert len({plan.changes for plan in plans}) == 4


def test_where_only_a_clean_stretch_is_missing_all_slots_run_it():
    investigation = start()
    investigation.record(TrialResult.of(CHANGES[1:], 50.0, "crashed"))
    investigation.record(TrialResult.of(["x0"], 4 * MEAN, "survived"))
    assert not investigation.is_decided
    plans = fill(investigation, 3)
    assert [plan.changes for plan in plans] == [("x0",)] * 3


def test_what_trials_came_through_counts_together():
    """None of the four has decided alone, and all of them together have."""
    investigation = start()
    investigation.record(TrialResult.of(CHANGES[1:], 50.0, "crashed"))
    plan = Plan(("x0",), 10 * MEAN, "")
    done = 2.5 * MEAN
    assert not investigation.should_stop(done, plan)
    others = [replace(plan, done=done)] * 3
    assert investigation.should_stop(done, plan, others)
    assert investigation.next_trial(running=[*others, replace(plan, done=done)]) is None
    # A trial that has only begun says nothing yet.
    assert not investigation.should_stop(done, plan, [plan] * 3)


def test_a_step_at_which_it_always_fails_is_not_passed_twice_for_nothing():
    investigation = Investigation(CHANGES[:2], failure_model=classify([40, 40, 40, 40, 40]))
    investigation.record(TrialResult.of(["x1"], 40, "crashed"))
    for _ in range(20):
        plan = investigation.next_trial()
        if plan is None or (plan.changes == ("x0",) and "later" in plan.reason):
            break
        crashes = "x0" not in plan.changes
        far = 40 if crashes else plan.exposure_limit
        investigation.record(
            TrialResult.of(plan.changes, far, "crashed" if crashes else "survived")
        )
    assert plan is None or investigation.next_trial(running=[plan]) is None


@pytest.mark.parametrize("culprit", ["x0", "x5", None])
def test_several_slots_find_what_one_finds(culprit):
    """By rounds: every slot runs its plan to the end, as it was asked before any of them ended."""
    rng = random.Random(3)
    investigation = start(crashes=100, overhead=2.0)
    for _ in range(60):
        plans = fill(investigation, 4)
        if not plans:
            break
        for plan in plans:
            is_safe = culprit in plan.changes
            crash = float("inf") if is_safe else rng.expovariate(1 / MEAN) + 0.01
            exposure = min(crash, plan.exposure_limit)
            outcome = "crashed" if crash <= plan.exposure_limit else "survived"
            investigation.record(TrialResult.of(plan.changes, exposure, outcome))
    verdict = investigation.verdict()
    assert verdict.status == ("confirmed" if culprit else "none-of-these")
    assert verdict.changes == ((culprit,) if culprit else ())
