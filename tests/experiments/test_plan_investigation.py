"""Whole investigations against simulated commands: right answers, honest statuses, resuming."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Plan, TrialResult
from rerail.survival import classify, fixed_step

CHANGES = ["--workers 0", "--accum 4", "--miner none", "OMP_NUM_THREADS=1", "--batch-size 32"]


def command(rate_of, mean=100.0, seed=0, run_length=math.inf):
    """An imaginary command that fails at a constant rate; a function of a plan."""
    draw = random.Random(seed)

    def run(plan):
        rate = rate_of(set(plan.changes)) / mean
        crash = math.ceil(draw.expovariate(rate)) if rate else math.inf
        end = min(plan.exposure_limit, run_length)
        if crash <= end:
            return TrialResult.of(plan.changes, crash, "crashed")
        return TrialResult.of(plan.changes, end, "survived")

    return run


def conduct(investigation, run, budget=50_000.0, **options):
    while investigation.exposure_used < budget:
        plan = investigation.next_trial(budget - investigation.exposure_used, **options)
        if plan is None:
            break
        investigation.record(run(plan))
    return investigation.verdict()


def start(history=(20, 110, 170), **options):
    return Investigation(CHANGES, failure_model=classify(history), **options)


def test_one_change_is_found_and_the_others_are_ruled_out_by_crashes():
    run = command(lambda applied: 0.0 if "--miner none" in applied else 1.0)
    investigation = start()
    verdict = conduct(investigation, run)
    assert verdict.status == "confirmed"
    assert verdict.changes == ("--miner none",)
    assert verdict.confidence >= 0.99
    assert "--miner none" not in [out.change for out in verdict.ruled_out]
    for out in verdict.ruled_out:
        assert any(t.outcome == "crashed" and out.change in t.changes for t in investigation.trials)


def test_confirmation_rests_on_trials_of_just_that_change_and_a_crash_without_it():
    run = command(lambda applied: 0.0 if "--accum 4" in applied else 1.0, seed=3)
    investigation = start()
    verdict = conduct(investigation, run)
    assert verdict.changes == ("--accum 4",)
    own = [t for t in investigation.trials if t.changes == {"--accum 4"}]
    assert sum(t.exposure for t in own) >= 50.0
    assert all(t.outcome == "survived" for t in own)
    assert any(t.outcome == "crashed" for t in investigation.trials)


def test_two_changes_that_are_needed_together():
    both = {"--workers 0", "--miner none"}
    verdict = conduct(start(), command(lambda s: 0.0 if both <= s else 1.0, seed=1))
    assert verdict.status == "confirmed"
    assert set(verdict.changes) == both


def test_either_of_two_gives_one_and_the_other_as_alternative():
    either = {"--workers 0", "--miner none"}
    investigation = start()
    run = command(lambda s: 0.0 if either & s else 1.0, seed=5)
    verdict = conduct(investigation, run, seek_alternatives=True)
    assert verdict.status == "confirmed"
    found = {verdict.changes, *verdict.alternatives}
    assert found == {("--workers 0",), ("--miner none",)}


def test_none_of_these():
    verdict = conduct(start(), command(lambda s: 1.0, seed=2))
    assert verdict.status == "none-of-these"
    assert verdict.changes == ()
    assert verdict.confidence >= 0.99


def test_a_failure_that_never_comes_is_not_reproduced():
    investigation = Investigation(CHANGES, run_length=1000.0)
    verdict = conduct(investigation, command(lambda s: 0.0), budget=20_000.0)
    assert verdict.status == "not-reproduced"
    assert all(not trial.changes for trial in investigation.trials)


def test_a_failure_that_came_before_and_no_longer_does_confirms_nothing():
    verdict = conduct(start(), command(lambda s: 0.0))
    assert verdict.status == "not-reproduced"


def test_without_history_the_failure_is_seen_first():
    investigation = Investigation(CHANGES)
    plan = investigation.next_trial()
    assert plan.changes == ()
    assert plan.exposure_limit == math.inf
    run = command(lambda s: 0.0 if "--accum 4" in s else 1.0, seed=8)
    assert conduct(investigation, run).changes == ("--accum 4",)


def test_the_budget_ends_it_inconclusive_with_a_ranking():
    investigation = start()
    verdict = conduct(investigation, command(lambda s: 1.0, seed=4), budget=30.0)
    assert investigation.exposure_used <= 30.0 + 1.0
    assert verdict.status == "inconclusive"
    assert verdict.ranking[0].probability >= verdict.ranking[1].probability
    assert investigation.next_trial(budget=0.0) is None


def test_what_is_sure_is_run_on_its_own_before_it_is_confirmed():
    """Clean in company and the others crashed: only its own trial is missing."""
    investigation = Investigation(CHANGES[:4], failure_model=classify([7, 9]))
    both = CHANGES[:2]
    investigation.record(TrialResult.of(both, 11, "crashed"))
    for company in ([*both, CHANGES[2]], CHANGES[1:4], CHANGES[2:4]):
        investigation.record(TrialResult.of(company, 300, "survived", True))
    investigation.record(TrialResult.of([CHANGES[3]], 10, "crashed"))
    assert investigation.verdict().status == "inconclusive"
    plan = investigation.next_trial()
    assert plan.changes == (CHANGES[2],)
    investigation.record(TrialResult.of(plan.changes, plan.exposure_limit, "survived"))
    assert investigation.verdict().changes == (CHANGES[2],)


def test_a_deterministic_failure_needs_a_handful_of_trials():
    def run(plan):
        if "OMP_NUM_THREADS=1" in plan.changes or plan.exposure_limit < 39:
            return TrialResult.of(plan.changes, plan.exposure_limit, "survived")
        return TrialResult.of(plan.changes, 39, "crashed")

    investigation = Investigation(CHANGES, failure_model=classify([39, 39]))
    verdict = conduct(investigation, run)
    assert verdict.changes == ("OMP_NUM_THREADS=1",)
    assert len(investigation.trials) <= 7
    # One goes further, so that the failure is gone and does not only come later.
    further = [trial for trial in investigation.trials if trial.exposure > 40]
    assert [set(trial.changes) for trial in further] == [{"OMP_NUM_THREADS=1"}]


def test_a_deterministic_failure_that_only_comes_later_is_not_confirmed():
    """Half the batch: twice the steps to the same place in the data."""

    def run(plan):
        step = 80 if "--batch-size 32" in plan.changes else 40
        if plan.exposure_limit < step:
            return TrialResult.of(plan.changes, plan.exposure_limit, "survived")
        return TrialResult.of(plan.changes, step, "crashed")

    verdict = conduct(Investigation(CHANGES, failure_model=fixed_step(40)), run)
    assert verdict.status == "none-of-these"


def test_a_change_that_lets_the_command_end_before_three_times_the_step_is_confirmed():
    def run(plan):
        if "--accum 4" in plan.changes:
            length = min(plan.exposure_limit, 60.0)
            return TrialResult.of(plan.changes, length, "survived", length == 60.0)
        if plan.exposure_limit < 40:
            return TrialResult.of(plan.changes, plan.exposure_limit, "survived")
        return TrialResult.of(plan.changes, 40, "crashed")

    verdict = conduct(Investigation(CHANGES, failure_model=fixed_step(40)), run)
    assert verdict.status == "confirmed" and verdict.changes == ("--accum 4",)


def test_values_of_one_thing_are_never_tried_together():
    values = ["--accum 1", "--accum 2", "--accum 16", "--workers 0"]
    investigation = Investigation(
        values, failure_model=classify([90, 110, 100]), exclusive=[values[:3]]
    )
    run = command(lambda s: 0.0 if "--accum 2" in s else 1.0, seed=1)
    verdict = conduct(investigation, run)
    assert verdict.changes == ("--accum 2",)
    assert all(len(set(values[:3]) & set(trial.changes)) <= 1 for trial in investigation.trials)


@pytest.mark.parametrize("seed", range(4))
def test_any_of_three_gives_one_and_the_others_as_alternatives(seed):
    enough = {"--workers 0", "--miner none", "--accum 4"}
    run = command(lambda s: 0.0 if enough & s else 1.0, seed=seed)
    verdict = conduct(start(), run, seek_alternatives=True)
    assert verdict.status == "confirmed"
    found = {verdict.changes, *verdict.alternatives}
    assert {(change,) for change in enough} >= found


def test_a_deterministic_failure_is_recognised_on_the_way():
    def run(plan):
        if "--accum 4" in plan.changes or plan.exposure_limit < 200:
            return TrialResult.of(plan.changes, min(plan.exposure_limit, 2000.0), "survived")
        return TrialResult.of(plan.changes, 200, "crashed")

    investigation = Investigation(CHANGES, run_length=2000.0)
    verdict = conduct(investigation, run)
    assert investigation.failure_model.kind == "fixed-step"
    assert verdict.changes == ("--accum 4",)
    assert len(investigation.trials) <= 9


def test_death_of_another_cause_counts_as_survival_up_to_there():
    one, other = start(), start()
    one.record(TrialResult.of(["--accum 4"], 70.0, "other"))
    other.record(TrialResult.of(["--accum 4"], 70.0, "survived"))
    assert one.posterior() == other.posterior()
    assert "--accum 4" not in [out.change for out in one.verdict().ruled_out]


def test_a_short_clean_stretch_confirms_nothing():
    investigation = start()
    investigation.record(TrialResult.of([], 100, "crashed"))
    investigation.record(TrialResult.of(["--workers 0"], 195, "survived"))
    assert investigation.verdict().status == "inconclusive"


def test_a_trial_is_ended_as_soon_as_it_has_said_enough():
    investigation = start()
    for change in CHANGES[1:]:
        investigation.record(TrialResult.of([change], 80, "crashed"))
        investigation.record(TrialResult.of([*CHANGES[1:]], 90, "crashed"))
    plan = Plan(("--workers 0",), 1e9, "by hand")
    assert not investigation.should_stop(10.0, plan)
    assert investigation.should_stop(3000.0, plan)
    planned = investigation.next_trial()
    assert "--workers 0" in planned.changes
    assert not investigation.should_stop(0.5 * planned.exposure_limit)
    assert investigation.should_stop(planned.exposure_limit)


def test_runs_of_the_command_are_never_asked_to_be_longer_than_it():
    investigation = start(run_length=30.0)
    run = command(lambda s: 0.0 if "--accum 4" in s else 1.0, seed=9, run_length=30.0)
    assert conduct(investigation, run).changes == ("--accum 4",)
    assert all(trial.exposure <= 30.0 for trial in investigation.trials)


def test_trials_at_the_same_time_ask_different_questions():
    investigation = Investigation(
        [f"x{i}" for i in range(16)], failure_model=classify([90, 110, 100])
    )
    running = []
    for _ in range(3):
        plan = investigation.next_trial(running=running)
        running.append(plan)
    assert len({plan.changes for plan in running}) == 3


def test_an_interrupted_investigation_goes_on_where_it_was():
    run = command(lambda s: 0.0 if "--accum 4" in s else 1.0, seed=6)
    investigation = start(priors={"--accum 4": 2.0, "--workers 0": 5.0}, overhead=3.0)
    for _ in range(4):
        investigation.record(run(investigation.next_trial()))
    resumed = start(priors={"--accum 4": 2.0, "--workers 0": 5.0}, overhead=3.0)
    for trial in investigation.trials:
        resumed.record(trial)
    assert resumed.posterior() == investigation.posterior()
    assert resumed.verdict() == investigation.verdict()
    assert resumed.exposure_used == investigation.exposure_used
    assert conduct(resumed, run).changes == ("--accum 4",)


def test_unknown_changes_and_impossible_confidences_are_refused():
    with pytest.raises(ValueError, match="not one of the changes"):
        start().record(TrialResult.of(["--lr 1"], 10, "survived"))
    with pytest.raises(ValueError, match=r"between 0\.5 and 1"):
        start(confidence=1.0)
    with pytest.raises(ValueError, match="needs some exposure"):
        TrialResult.of([], 0, "crashed")


results = st.lists(
    st.builds(
        TrialResult.of,
        st.sets(st.sampled_from(CHANGES)),
        st.floats(0.5, 2000.0),
        st.sampled_from(["crashed", "survived", "other"]),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(results)
def test_whatever_is_recorded_the_verdict_is_never_better_than_its_evidence(recorded):
    investigation = start()
    for result in recorded:
        investigation.record(result)
    verdict = investigation.verdict()
    assert math.fsum(line.probability for line in investigation.posterior(1000)) == pytest.approx(1)
    if verdict.status == "confirmed":
        chosen = set(verdict.changes)
        assert verdict.confidence >= 0.99
        assert any(r.outcome == "crashed" and not chosen <= r.changes for r in recorded)
        assert not any(r.outcome == "crashed" and chosen <= r.changes for r in recorded)
        assert any(r.changes == chosen and r.outcome != "crashed" for r in recorded)
    elif not verdict.is_final:
        plan = investigation.next_trial()
        assert plan is not None
        assert plan.exposure_limit > 0.0


def test_the_answer_is_nearly_always_right():
    """A small version of the benchmark; seeds are fixed, so it cannot be unlucky."""
    wrong = confirmed = 0
    for seed in range(40):
        culprit = CHANGES[seed % len(CHANGES)]
        rate_of = (
            (lambda s: 1.0)
            if seed % 4 == 0
            else (lambda s, culprit=culprit: 0.0 if culprit in s else 1.0)
        )
        verdict = conduct(start(run_length=70.0), command(rate_of, seed=seed, run_length=70.0))
        confirmed += verdict.status == "confirmed"
        expected = () if seed % 4 == 0 else (culprit,)
        wrong += verdict.is_final and verdict.changes != expected
    assert wrong <= 1
    assert confirmed >= 28


def test_what_is_all_but_decided_is_proven_and_not_run_in_company_for_ever():
    """Two that each suffice, and the hundredth that is left is in many small pieces."""
    names = ["--workers 0", "--miner none", "--accum 4", "--batch-size 32"]
    investigation = Investigation(names, run_length=300.0, overhead=300.0)
    for steps in (25, 57, 9, 20):
        investigation.record(TrialResult.of([], steps, "crashed"))
    for company in (names[:2], names[:1], names[:1], names[1:2]):
        investigation.record(TrialResult.of(company, 300, "survived", True))
    for company in (names[1:], names, names, names[1:], names):
        investigation.record(TrialResult.of(company, 75, "survived", True))
    while (plan := investigation.next_trial()) is not None:
        assert "--workers 0" in plan.changes
        investigation.record(TrialResult.of(plan.changes, plan.exposure_limit, "survived"))
        assert len(investigation.trials) <= 16
    assert investigation.verdict().changes == ("--workers 0",)


def test_three_crashes_close_together_by_chance_are_not_held_to_be_ageing_for_ever():
    """An investigation that is told "wear-out" drops it once crashes come early."""
    investigation = start(history=(20, 20, 22))
    assert investigation.failure_model.kind == "wear-out"
    for steps in (5, 60, 3):
        investigation.record(TrialResult.of(["--accum 4"], steps, "crashed"))
    assert investigation.failure_model.kind == "constant-rate"
    assert investigation.failure_model.operational_time(30.0) == 30.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1, 40])
@pytest.mark.parametrize("enough", [{"--miner none"}, {"--workers 0", "--accum 4"}, set()])
def test_a_race_that_some_runs_win_is_neither_a_rate_nor_certain(enough, step, seed):
    """It fails at its place in seven of ten runs, and never after it."""
    draw = random.Random(f"{sorted(enough)} {step} {seed}")

    def run(plan):
        is_at_risk = not enough or not enough <= set(plan.changes)
        if is_at_risk and plan.exposure_limit >= step and draw.random() < 0.7:
            return TrialResult.of(plan.changes, step, "crashed")
        length = min(plan.exposure_limit, 300.0)
        return TrialResult.of(plan.changes, length, "survived", length == 300.0)

    investigation = Investigation(CHANGES, run_length=300.0)
    verdict = conduct(investigation, run)
    assert set(verdict.changes) == enough
    assert verdict.status == ("confirmed" if enough else "none-of-these")
    assert investigation.failure_model.kind == "fixed-step"
    assert len(investigation.trials) <= 60
