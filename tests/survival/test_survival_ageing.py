"""Ageing: the Weibull fit against lifelines and scipy, and tests that keep their level."""

import math
import random

import lifelines
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.survival import Lifetimes, age_test, fit_weibull, laplace_trend
from rerail.survival.ageing import SHAPES, ShapePosterior, log_marginal


def weibull_runs(draw, count, shape, run_length=math.inf):
    """Lifetimes of `count` runs of scale 100, ended at `run_length`."""
    times = [draw.weibullvariate(100.0, shape) for _ in range(count)]
    crashed = [time for time in times if time <= run_length]
    return Lifetimes.of(crashed, [run_length] * (count - len(crashed)))


@pytest.mark.parametrize(("shape", "run_length"), [(0.6, 300.0), (1.0, 80.0), (3.0, 120.0)])
def test_weibull_fit_agrees_with_lifelines(shape, run_length):
    lifetimes = weibull_runs(random.Random(5), 40, shape, run_length)
    observed = [1] * lifetimes.crashes + [0] * len(lifetimes.survivals)
    reference = lifelines.WeibullFitter().fit(lifetimes.all_times, observed)
    ours = fit_weibull(lifetimes)
    assert ours.shape == pytest.approx(reference.rho_, rel=1e-3)
    assert ours.scale == pytest.approx(reference.lambda_, rel=1e-3)
    assert ours.log_likelihood == pytest.approx(reference.log_likelihood_, abs=1e-3)


def test_weibull_fit_agrees_with_scipy_without_censoring():
    lifetimes = weibull_runs(random.Random(11), 25, 2.2)
    shape, _, scale = scipy.stats.weibull_min.fit(lifetimes.crash_times, floc=0)
    ours = fit_weibull(lifetimes)
    assert (ours.shape, ours.scale) == pytest.approx((shape, scale), rel=1e-3)


def test_published_ball_bearings():
    """Lieblein and Zelen's 23 deep-groove ball bearings: shape 2.10, scale 81.9."""
    millions = [
        17.88, 28.92, 33.0, 41.52, 42.12, 45.6, 48.48, 51.84, 51.96, 54.12, 55.56, 67.8,
        68.64, 68.64, 68.88, 84.12, 93.12, 98.64, 105.12, 105.84, 127.92, 128.04, 173.4,
    ]  # fmt: skip
    fit = fit_weibull(Lifetimes.of(millions))
    assert (fit.shape, fit.scale) == pytest.approx((2.102, 81.88), rel=2e-3)
    assert age_test(Lifetimes.of(millions)).p_wear_out < 1e-3


def test_laplace_trend_by_hand():
    assert laplace_trend([25.0, 50.0, 75.0], 100.0) == 0.0
    growing = laplace_trend([70.0, 80.0, 90.0, 95.0], 100.0)
    assert growing == pytest.approx((83.75 - 50.0) / (100.0 / math.sqrt(48.0)))
    with pytest.raises(ValueError, match="between zero and the end"):
        laplace_trend([120.0], 100.0)


@pytest.mark.parametrize(("count", "run_length"), [(3, math.inf), (8, 60.0), (40, 150.0)])
def test_age_test_keeps_its_level_at_a_constant_rate(count, run_length):
    draw = random.Random(3)
    wear = early = total = 0
    while total < 4000:
        result = age_test(weibull_runs(draw, count, 1.0, run_length))
        if result is not None:
            total += 1
            wear += result.p_wear_out < 0.05
            early += result.p_early < 0.05
    allowed = 0.012 if math.isinf(run_length) else 0.03
    assert wear / total == pytest.approx(0.05, abs=allowed)
    assert early / total == pytest.approx(0.05, abs=allowed)


def test_age_test_sees_wear_and_early_deaths():
    draw = random.Random(9)
    wear = [age_test(weibull_runs(draw, 10, 4.0)).p_wear_out < 0.05 for _ in range(200)]
    early = [age_test(weibull_runs(draw, 10, 0.4)).p_early < 0.05 for _ in range(200)]
    assert sum(wear) > 190
    assert sum(early) > 150


lifetimes_strategy = st.builds(
    Lifetimes.of,
    st.lists(st.floats(1.0, 1e6), min_size=2, max_size=12),
    st.lists(st.floats(0.0, 1e6), max_size=12),
)


@settings(deadline=None)
@given(lifetimes_strategy)
def test_p_values_are_probabilities_and_complement(lifetimes):
    result = age_test(lifetimes)
    assert 0.0 <= result.p_wear_out <= 1.0
    assert result.p_wear_out + result.p_early == pytest.approx(1.0)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=20),
    st.lists(st.integers(0, 30), max_size=20),
)
def test_totals_on_test_are_what_every_run_had_reached_at_each_crash(crashes, survivals):
    lifetimes = Lifetimes.of(crashes, survivals)
    reached = [sum(min(t, crash) for t in crashes + survivals) for crash in sorted(crashes)]
    scaled = [total / reached[-1] for total in reached[:-1]]
    assert age_test(lifetimes).statistic == pytest.approx(sum(scaled) / len(scaled))
    powered = sum(t**1.7 for t in crashes + survivals)
    assert lifetimes.powered(1.7) == pytest.approx(powered)


@settings(max_examples=50, deadline=None)
@given(lifetimes_strategy, st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_luck_over_unknown_shape_falls_with_the_stretch(lifetimes, one, other):
    posterior = ShapePosterior(lifetimes)
    short, long = sorted((one, other))
    assert 0.0 <= posterior.luck((long,)) <= posterior.luck((short,)) + 1e-12
    assert posterior.luck((short, long)) <= posterior.luck((long,)) + 1e-12


def test_shape_posterior_against_numerical_integration():
    lifetimes = Lifetimes.of([40.0, 55.0, 61.0], [30.0])
    direct = []
    for shape in SHAPES:
        # The scale integrated out by brute force over its logarithm.
        total = 0.0
        for i in range(4000):
            scale = math.exp(-2.0 + i * 0.005)
            log = sum(
                math.log(shape / scale) + (shape - 1) * math.log(t / scale)
                for t in lifetimes.crash_times
            ) - sum((t / scale) ** shape for t in lifetimes.all_times)
            total += math.exp(log)
        direct.append(math.log(total))
    ours = [log_marginal(lifetimes, shape) for shape in SHAPES]
    middle = len(SHAPES) // 2
    for i in range(0, len(SHAPES), 8):
        assert ours[i] - ours[middle] == pytest.approx(direct[i] - direct[middle], abs=1e-2)
