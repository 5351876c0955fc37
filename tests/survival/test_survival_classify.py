"""Each kind of failure is recognised and gets its own proof."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.survival import (
    FailureModel,
    classify,
    clean_stretch_needed,
    fixed_step,
    probability_of_luck,
)


def test_the_incident_stays_a_constant_rate():
    model = classify([117, 927])
    assert model.kind == "constant-rate"
    assert probability_of_luck(model, [1950]) == pytest.approx(0.1216, abs=5e-5)
    assert probability_of_luck(model, [950, 1000]) == pytest.approx(0.1216, abs=5e-5)


def test_a_fixed_step_needs_one_repeat_not_a_hundred():
    model = classify([472, 472])
    assert model.kind == "fixed-step"
    assert model.is_every_time
    needed = clean_stretch_needed(model, 0.95)
    assert (needed.runs, needed.exposure_per_run) == (1, 473.0)
    assert "every time" in needed.reason
    assert probability_of_luck(model, [471]) == 1.0
    assert probability_of_luck(model, [473]) < 0.05
    # It may be a race that half of the runs win: a few more for more.
    assert clean_stretch_needed(model, 0.99).runs == 3
    assert clean_stretch_needed(classify([472] * 4), 0.99).runs == 2


def test_a_step_known_from_the_diagnosis_needs_no_second_crash():
    needed = clean_stretch_needed(fixed_step(39), 0.999)
    assert (needed.runs, needed.exposure_per_run) == (1, 40.0)


def test_a_fixed_step_that_some_runs_pass_needs_several_passes():
    model = classify([472, 472, 472], survivals=[900, 900])
    assert model.kind == "fixed-step"
    assert not model.is_every_time
    needed = clean_stretch_needed(model, 0.99)
    assert needed.runs > 3
    assert probability_of_luck(model, [473.5] * needed.runs) <= 0.01
    assert probability_of_luck(model, [473.5] * (needed.runs - 1)) > 0.01


def test_crashes_at_the_start_are_its_own_and_not_a_rate_of_every_step():
    """As a rate, one run of twenty steps would prove what half of the runs pass."""
    model = classify([2, 2])
    assert model.kind == "fixed-step"
    assert clean_stretch_needed(model, 0.99).runs == 3
    # They may agree by chance, so that a run has to go on for a while to say something.
    assert model.clear_of_the_step > 3 * model.past_the_step
    assert classify([9, 9]).clear_of_the_step == classify([9, 9]).past_the_step
    assert classify([2, 5]).kind == "constant-rate"


def test_wear_needs_a_long_run_rather_than_many_short_ones():
    model = classify([900, 1000, 950, 1100, 980])
    assert model.kind == "wear-out"
    one_run = clean_stretch_needed(model, 0.99)
    assert one_run.runs == 1
    assert 1100 < one_run.exposure < 2500
    assert probability_of_luck(model, [one_run.exposure]) <= 0.01 + 1e-9
    # Ten runs of half the age have the same exposure as five of the whole, and say nothing.
    assert probability_of_luck(model, [500] * 10) > 0.8


def test_memory_at_death_speaks_for_a_leak():
    times = [300, 520, 410]
    plain = classify(times)
    with_memory = classify(times, memory_at_crash=[7.9e9, 8.0e9, 7.95e9])
    assert plain.kind == "constant-rate"
    assert with_memory.kind == "wear-out"
    assert any("memory" in finding.text for finding in with_memory.findings)


def test_early_failures_need_starts_rather_than_length():
    model = classify([3, 1, 2, 300, 4, 900])
    assert model.kind == "early"
    starts = probability_of_luck(model, [100] * 10)
    length = probability_of_luck(model, [1000])
    assert starts < length


def test_epoch_boundary_counts_epochs():
    model = classify([400, 1200, 801], periods={"epoch": 400, "accumulation": 4})
    assert (model.kind, model.phase) == ("phase-boundary", "epoch")
    assert probability_of_luck(model, [398]) == 1.0
    assert probability_of_luck(model, [2001]) == probability_of_luck(model, [2350])
    needed = clean_stretch_needed(model, 0.95)
    assert probability_of_luck(model, [needed.exposure]) <= 0.05


def test_accumulation_boundary_needs_enough_crashes_to_be_seen():
    periods = {"accumulation": 4}
    assert classify([4, 36], periods=periods).kind == "constant-rate"
    assert classify([4, 36, 8, 120, 64], periods=periods).kind == "accumulation-boundary"


def test_run_length_divides_the_stretch():
    model = classify([117, 927, 400])
    whole = clean_stretch_needed(model, 0.99)
    repeated = clean_stretch_needed(model, 0.99, run_length=500)
    assert repeated.exposure_per_run == 500
    assert repeated.runs == math.ceil(whole.exposure / 500)
    assert clean_stretch_needed(model, 0.99, run_length=1e6) == whole


def test_runs_too_short_to_tell_are_said():
    assert clean_stretch_needed(fixed_step(472), 0.99, run_length=300).exposure == math.inf
    model = classify([400, 1200, 801], periods={"epoch": 400})
    needed = clean_stretch_needed(model, 0.99, run_length=200)
    assert needed.exposure == math.inf
    assert "ends before" in needed.reason


def test_nothing_seen_proves_nothing():
    model = classify([], survivals=[1000, 2000])
    assert model.kind == "unseen"
    assert probability_of_luck(model, [1e6]) == 1.0
    assert clean_stretch_needed(model, 0.95).exposure == math.inf


def test_random_crashes_are_rarely_taken_for_something_else():
    draw = random.Random(1)
    kinds = []
    for _ in range(1500):
        times = [math.ceil(draw.expovariate(1 / 200)) for _ in range(draw.randint(2, 8))]
        kinds.append(classify(times, periods={"epoch": 97, "accumulation": 4}).kind)
    for pattern in ("fixed-step", "phase-boundary", "accumulation-boundary"):
        assert kinds.count(pattern) / len(kinds) < 0.015
    assert kinds.count("constant-rate") / len(kinds) > 0.85


models = st.builds(
    lambda crashes, survivals, periods: classify(crashes, survivals, periods),
    st.lists(st.integers(1, 5000), min_size=1, max_size=6),
    st.lists(st.integers(0, 5000), max_size=4),
    st.sampled_from([None, {"epoch": 50}, {"accumulation": 4, "epoch": 311}]),
)


@settings(deadline=None)
@given(models, st.lists(st.floats(0, 1e5), max_size=4), st.floats(0, 1e5))
def test_more_clean_runs_never_look_more_like_luck(model, runs, another):
    before = probability_of_luck(model, runs)
    assert 0.0 <= probability_of_luck(model, [*runs, another]) <= before + 1e-12 <= 1.0 + 1e-12


@settings(deadline=None)
@given(models, st.sampled_from([0.5, 0.95, 0.99]))
def test_the_stretch_asked_for_is_enough(model, confidence):
    needed = clean_stretch_needed(model, confidence)
    luck = probability_of_luck(model, [needed.exposure_per_run] * needed.runs)
    assert luck <= (1.0 - confidence) * (1 + 1e-6)


@settings(deadline=None)
@given(models, st.floats(1.0, 1e5))
def test_the_clock_and_its_inverse(model, exposure):
    counted = model.operational_time(exposure)
    assert model.operational_time(model.exposure_for(counted)) >= counted * (1 - 1e-9)


@settings(deadline=None)
@given(models)
def test_a_model_survives_being_written_down(model):
    assert FailureModel.from_json(model.to_json()) == model


@pytest.mark.parametrize("times", [[0], [-3], [math.inf], [math.nan]])
def test_impossible_crash_times_are_refused(times):
    with pytest.raises(ValueError, match="above zero"):
        classify(times)
