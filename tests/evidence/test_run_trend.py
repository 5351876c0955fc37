from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from rerail.evidence.run.trend import theil_sen, trend_of, value_at

MIB = float(1 << 20)
LEAST = 24 * MIB


def shape(points):
    trend = trend_of(points, LEAST)
    return trend.shape if trend else None


def curve(function, count=300, noise=0.0, seed=1):
    chance = random.Random(seed)
    return [
        (i * 0.1, (function(i / count) + chance.uniform(-noise, noise)) * MIB) for i in range(count)
    ]


@pytest.mark.parametrize("noise", [0.0, 2.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "function", "expected"),
    [
        ("level", lambda x: 500, None),
        ("straight line", lambda x: 500 + 300 * x, "leak"),
        ("bends but goes on", lambda x: 500 + 300 * math.sqrt(x), "leak"),
        ("grows faster and faster", lambda x: 500 + 400 * x * x, "leak"),
        ("sawtooth that rises", lambda x: 500 + 300 * x + 40 * ((x * 25) % 1), "leak"),
        ("staircase of thirty", lambda x: 500 + 10 * int(x * 30), "leak"),
        ("one step in the middle", lambda x: 500 + 300 * (x > 0.5), "step"),
        ("one step at the end", lambda x: 300 + 400 * (x > 0.96), "step"),
        ("fills a cache, then level", lambda x: 500 + 300 * min(1, x / 0.3), "plateau"),
        ("saturates", lambda x: 500 + 300 * (1 - math.exp(-9 * x)), "plateau"),
        ("breathes", lambda x: 500 + 60 * math.sin(40 * x), None),
        ("falls", lambda x: 800 - 300 * x, None),
        (
            "level, then leaks after a step",
            lambda x: 500 + (x > 0.3) * (300 + 400 * (x - 0.3)),
            "leak",
        ),
    ],
)
def test_shapes(name, function, expected, noise, seed):
    assert shape(curve(function, noise=noise, seed=seed)) == expected


def test_a_leak_is_found_in_few_and_in_many_points():
    for count in (12, 40, 5000):
        assert shape(curve(lambda x: 400 + 200 * x, count=count)) == "leak"


def test_the_slope_of_a_leak_is_what_was_put_in():
    points = curve(lambda x: 500 + 300 * x, noise=10.0)
    trend = trend_of(points, LEAST)
    assert trend is not None and trend.slope / MIB == pytest.approx(10.0, rel=0.05)


def test_one_wild_point_changes_nothing():
    points = curve(lambda x: 500)
    points[150] = (points[150][0], 5000 * MIB)
    assert shape(points) is None


def test_too_little_to_say():
    assert shape([]) is None
    assert shape([(0.0, 0.0), (1.0, 9e9)]) is None
    assert shape([(5.0, i * 1e8) for i in range(50)]) is None


numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=40, unique_by=lambda p: p[0]))
def test_theil_sen_is_scipys(points):
    points.sort()
    expected = theilslopes([y for _, y in points], [x for x, _ in points])[0]
    assert theil_sen(points) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e12)), max_size=120).map(
        lambda points: sorted(points, key=lambda p: p[0])
    )
)
def test_no_curve_raises_and_a_claimed_rise_is_a_rise(points):
    trend = trend_of(points, LEAST)
    if trend is not None:
        assert trend.rise >= LEAST
        assert max(y for _, y in points) - min(y for _, y in points) >= trend.rise * 0.999


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e9)), min_size=1, max_size=30),
    st.floats(0, 1e5),
)
def test_a_value_between_points_lies_between_their_values(points, x):
    points.sort(key=lambda p: p[0])
    value = value_at(points, x)
    if points[0][0] <= x <= points[-1][0]:
        assert value is not None
        ys = [y for _, y in points]
        assert min(ys) * (1 - 1e-9) <= value <= max(ys) * (1 + 1e-9) + 1e-9
    else:
        assert value is None
