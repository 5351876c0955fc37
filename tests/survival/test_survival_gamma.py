"""The gamma distribution against scipy."""

import math

import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.survival import gamma

shapes = st.floats(0.05, 2000.0)


@settings(deadline=None)
@given(shapes, st.floats(1e-6, 5000.0))
def test_both_tails_agree_with_scipy(shape, x):
    assert gamma.lower(shape, x) == pytest.approx(scipy.special.gammainc(shape, x), abs=1e-11)
    upper = scipy.special.gammaincc(shape, x)
    assert gamma.upper(shape, x) == pytest.approx(upper, rel=1e-8, abs=1e-13)


@settings(deadline=None)
@given(st.floats(0.2, 500.0), st.floats(1e-6, 1.0 - 1e-6))
def test_quantile_agrees_with_scipy(shape, probability):
    expected = scipy.special.gammaincinv(shape, probability)
    assert gamma.quantile(shape, probability) == pytest.approx(expected, rel=1e-7)


def test_ends_of_the_distribution():
    assert gamma.quantile(3, 0.0) == 0.0
    assert gamma.quantile(3, 1.0) == math.inf
    assert gamma.lower(3, 0.0) == 0.0
    assert gamma.lower(3, math.inf) == 1.0
    assert gamma.upper(3, 0.0) == 1.0
    assert gamma.upper(3, math.inf) == 0.0


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="between 0 and 1"):
        gamma.quantile(1, 1.5)
    with pytest.raises(ValueError, match="above zero, not 0"):
        gamma.lower(0, 1)
