"""Clean passes of a place where the failure always came."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from rerail.survival.passes import NOT_CERTAIN, chance_of_misses, log_likelihood, passes_for

counts = st.integers(0, 40)


@given(st.integers(1, 30), counts)
def test_the_likelihood_is_that_of_certainty_or_of_any_chance_alike(crashes, misses):
    by_chance, _ = quad(lambda p: p**crashes * (1.0 - p) ** misses, 0.0, 1.0)
    certain = 1.0 if misses == 0 else 0.0
    expected = NOT_CERTAIN * by_chance + (1.0 - NOT_CERTAIN) * certain
    assert math.exp(log_likelihood(crashes, misses)) == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_pass_and_a_crash_are_all_that_can_come_next(crashes, misses):
    crash = math.exp(log_likelihood(crashes + 1, misses) - log_likelihood(crashes, misses))
    assert crash + chance_of_misses(crashes, misses) == pytest.approx(1.0)


def test_the_oftener_it_came_the_less_a_clean_pass_is_luck():
    assert chance_of_misses(2) > 2 * chance_of_misses(5) > 4 * chance_of_misses(12)
    # Two clean passes say less than one does twice: it may fail in half of the runs.
    assert chance_of_misses(3, more=2) > 2 * chance_of_misses(3) ** 2
    # And once it was passed with nothing changed, a pass is no surprise.
    assert chance_of_misses(3, missed=1) > 10 * chance_of_misses(3)


@given(st.floats(0.1, 12.0), st.integers(1, 30), st.integers(0, 30))
def test_so_many_passes_are_enough_and_not_twice_too_many(nats, crashes, missed):
    passes = passes_for(nats, crashes, missed)
    reached = -math.log(chance_of_misses(crashes, missed, passes))
    first = -math.log(chance_of_misses(crashes)) if missed == 0 else 0.0
    assert 0.999 * max(nats, first) <= reached <= 1.7 * max(nats, first)
