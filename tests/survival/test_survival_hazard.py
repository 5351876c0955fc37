"""The arithmetic of a constant rate: published tables, scipy, and simulation."""

import math
import random

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.survival import Hazard

counts = st.integers(1, 200)
exposures = st.floats(1e-3, 1e9)
stretches = st.floats(0.0, 1e9)


def test_the_incident_that_was_luck():
    """Crashes at batches 117 and 927, then 1,950 clean batches: 12 % of luck."""
    assert Hazard(2, 117 + 927).luck(1950) == pytest.approx(0.1216, abs=5e-5)


@pytest.mark.parametrize(
    ("crashes", "confidence", "means"),
    [(1, 0.95, 19.0), (1, 0.99, 99.0), (3, 0.95, 5.14), (3, 0.99, 10.9)],
)
def test_clean_stretch_in_estimated_means(crashes, confidence, means):
    hazard = Hazard(crashes, 250.0 * crashes)
    needed = hazard.stretch_needed(confidence) / hazard.mean_time_to_failure
    assert needed == pytest.approx(means, rel=3e-3)


# Garwood (1936): exact 95 % limits for the mean of a Poisson count.
@pytest.mark.parametrize(
    ("count", "low", "high"),
    [
        (0, 0.0, 3.689),
        (1, 0.0253, 5.572),
        (2, 0.2422, 7.225),
        (3, 0.6187, 8.767),
        (5, 1.623, 11.668),
        (10, 4.795, 18.390),
        (20, 12.217, 30.888),
    ],
)
def test_exact_interval_against_garwoods_table(count, low, high):
    assert Hazard(count, 1.0).exact_interval() == pytest.approx((low, high), abs=1e-3)


# Chi-square limits for a failure-terminated test, 90 % two-sided: factors on the mean.
@pytest.mark.parametrize(
    ("crashes", "shortest", "longest"),
    [(1, 0.334, 19.496), (2, 0.422, 5.628), (3, 0.477, 3.669), (5, 0.546, 2.538)],
)
def test_interval_against_reliability_tables(crashes, shortest, longest):
    low, high = Hazard(crashes, float(crashes)).interval(0.90)
    assert (1 / high, 1 / low) == pytest.approx((shortest, longest), rel=2e-3)


def test_rule_of_three():
    assert Hazard(0, 300.0).upper_bound(0.95) == pytest.approx(3.0 / 300.0, rel=2e-3)


@settings(deadline=None)
@given(counts, exposures, st.floats(0.5, 0.999))
def test_interval_agrees_with_scipy(crashes, exposure, level):
    expected = scipy.stats.gamma(crashes, scale=1 / exposure).interval(level)
    assert Hazard(crashes, exposure).interval(level) == pytest.approx(expected, rel=1e-7)


@settings(deadline=None)
@given(counts, exposures, stretches)
def test_luck_is_the_lomax_tail(crashes, exposure, stretch):
    expected = scipy.stats.lomax(crashes, scale=exposure).sf(stretch)
    assert Hazard(crashes, exposure).luck(stretch) == pytest.approx(expected, rel=1e-6, abs=1e-300)


@settings(deadline=None)
@given(counts, exposures, st.floats(0.01, 0.9999))
def test_needed_stretch_has_just_the_luck_left(crashes, exposure, confidence):
    hazard = Hazard(crashes, exposure)
    left = hazard.luck(hazard.stretch_needed(confidence))
    assert left == pytest.approx(1.0 - confidence, rel=1e-6)


@settings(deadline=None)
@given(counts, exposures, stretches, stretches)
def test_luck_falls_with_the_stretch_and_ignores_the_unit(crashes, exposure, one, other):
    hazard = Hazard(crashes, exposure)
    short, long = sorted((one, other))
    assert hazard.luck(long) <= hazard.luck(short) <= 1.0
    in_thousands = Hazard(crashes, exposure / 1000.0)
    assert in_thousands.luck(one / 1000.0) == pytest.approx(hazard.luck(one), rel=1e-6)


@settings(deadline=None)
@given(exposures, st.integers(1, 50))
def test_more_crashes_need_less_proof(mean, crashes):
    fewer = Hazard(crashes, mean * crashes).stretch_needed(0.99)
    more = Hazard(crashes + 1, mean * (crashes + 1)).stretch_needed(0.99)
    assert more < fewer
    assert more > mean * math.log(100.0)  # no number of crashes beats the known rate


@pytest.mark.parametrize("crashes", [1, 2, 5])
def test_luck_is_the_long_run_frequency_whatever_the_true_rate(crashes):
    """The stretch asked for at 90 % is survived by one unchanged program in ten."""
    draw = random.Random(7 + crashes)
    trials, lucky = 20_000, 0
    for _ in range(trials):
        exposure = sum(draw.expovariate(1 / 40.0) for _ in range(crashes))
        lucky += draw.expovariate(1 / 40.0) > Hazard(crashes, exposure).stretch_needed(0.9)
    assert lucky / trials == pytest.approx(0.1, abs=0.008)


def test_without_a_crash_nothing_is_proven():
    hazard = Hazard(0, 5000.0)
    assert hazard.rate == 0.0
    assert hazard.mean_time_to_failure == math.inf
    assert hazard.luck(1e9) == 1.0
    assert hazard.stretch_needed(0.95) == math.inf
    assert Hazard(0, 0.0).upper_bound() == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Hazard(-1, 10.0),
        lambda: Hazard(1, 0.0),
        lambda: Hazard(1, math.nan),
        lambda: Hazard(1, 10.0).luck(-1.0),
        lambda: Hazard(1, 10.0).stretch_needed(1.0),
        lambda: Hazard(1, 10.0).interval(0.0),
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=r"not|needs"):
        wrong()


@given(st.integers(1, 12), st.floats(0.1, 1e4), st.integers(1, 12), st.floats(0.1, 1e4))
def test_the_chance_that_one_rate_is_above_another_is_a_beta_tail(k1, s1, k0, s0):
    chance = Hazard(k1, s1).chance_above(Hazard(k0, s0))
    assert chance == pytest.approx(scipy.stats.beta.cdf(s0 / (s0 + s1), k0, k1), abs=1e-9)
    assert chance + Hazard(k0, s0).chance_above(Hazard(k1, s1)) == pytest.approx(1.0)


def test_without_a_crash_no_rate_is_above_one_that_was_seen():
    assert Hazard(0, 100.0).chance_above(Hazard(2, 10.0)) == 0.0
    assert Hazard(2, 10.0).chance_above(Hazard(0, 100.0)) == 1.0
    assert Hazard(0, 100.0).chance_above(Hazard(0, 10.0)) == 0.5
