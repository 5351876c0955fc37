"""The search for one change among many: what it runs, and when it leaves the choice to others."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.experiments.planner.hypotheses import build_hypotheses
from rerail.experiments.planner.posterior import Posterior
from rerail.experiments.planner.single_search import narrow
from rerail.survival import Lifetimes, constant_rate, fixed_step

CHANGES = [f"x{i}" for i in range(16)]
MEAN = 100.0


def known_rate(weights=None, crashes=50, changes=CHANGES, exclusive=()):
    seen = Lifetimes.of([MEAN] * crashes)
    hypotheses = build_hypotheses(changes, weights, exclusive=exclusive)
    return Posterior(hypotheses, constant_rate(seen), seen)


def test_the_first_set_holds_about_two_thirds_of_changes_alike():
    choice = narrow(known_rate(), 16, 0.99)
    assert choice.applied.bit_count() in (9, 10, 11)
    assert 0.0 < choice.counted < MEAN


def test_a_change_that_is_named_far_above_the_others_is_run_alone():
    choice = narrow(known_rate({"x5": 60.0, "x1": 1.0}), 16, 0.99)
    assert choice.applied == 1 << 5


def test_a_crash_halves_the_field_and_the_next_set_is_taken_from_what_is_left():
    posterior = known_rate()
    posterior.observe(0b1111111111, 60.0, True)
    choice = narrow(posterior, 16, 0.99)
    assert not choice.applied & 0b1111111111
    assert choice.applied.bit_count() in (3, 4)


def test_what_only_other_changes_speak_against_is_proven_by_a_crash_without_it():
    posterior = known_rate()
    posterior.observe(0b0011, 6 * MEAN, False)
    posterior.observe(0b0001, 3.5 * MEAN, False)
    assert narrow(posterior, 16, 0.99).applied == 0xFFFF & ~1
    # Once that crash has come, all that is left is a clean stretch.
    posterior.observe(0xFFFF & ~1, MEAN, True)
    assert narrow(posterior, 16, 0.99).applied == 1


def test_a_right_first_guess_gets_the_crash_without_which_nothing_is_confirmed():
    """Nothing crashes while the right change is run: clean stretches alone would go on for ever."""
    posterior = known_rate({"x0": 15.0, "x1": 1.0})
    posterior.observe(1, 8 * MEAN, False)
    choice = narrow(posterior, 16, 0.99)
    assert choice.applied == 0xFFFF & ~1


@pytest.mark.parametrize(
    "reason", ["fixed step", "dear start", "few crashes", "no crash", "not one alone"]
)
def test_where_it_leaves_the_choice_to_the_planner(reason):
    posterior, overhead = known_rate(crashes=3 if reason == "few crashes" else 50), 0.0
    if reason == "fixed step":
        seen = Lifetimes.of([39.0] * 3)
        posterior = Posterior(build_hypotheses(CHANGES), fixed_step(39), seen)
    elif reason == "no crash":
        seen = Lifetimes(())
        posterior = Posterior(build_hypotheses(CHANGES), constant_rate(seen), seen)
    elif reason == "dear start":
        overhead = 0.5 * MEAN
    elif reason == "not one alone":
        for i in range(16):
            posterior.observe(1 << i, MEAN, True)
    assert narrow(posterior, 16, 0.99, overhead) is None


@given(
    st.lists(st.tuples(st.integers(0, 63), st.floats(1.0, 500.0), st.booleans()), max_size=12),
    st.lists(st.floats(0.5, 10.0), min_size=6, max_size=6),
)
def test_whatever_was_seen_the_trial_can_be_run(trials, weights):
    changes = CHANGES[:6]
    groups = [0b000011, 0b011100]
    posterior = known_rate(dict(zip(changes, weights, strict=True)), 20, changes, groups)
    for applied, exposure, crashed in trials:
        posterior.observe(applied, exposure, crashed)
    choice = narrow(posterior, 6, 0.99, 0.0, groups)
    if choice is not None:
        assert choice.applied and choice.applied < 1 << 6
        assert all((choice.applied & group).bit_count() <= 1 for group in groups)
        assert 0.0 < choice.counted < math.inf
