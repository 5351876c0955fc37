"""The gamma distribution from the standard library alone.

A shape and a point come in; probabilities and quantiles go out, to about twelve digits
for the shapes that a handful of crashes gives (up to some thousands). scipy would be the
usual choice, but it is a hundred megabytes for four functions.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_RELATIVE_PRECISION = 1e-15
_MAX_TERMS = 100_000


def lower(shape: float, x: float) -> float:
    """P(shape, x): the probability that a unit-rate gamma variable is at most x."""
    _check_shape(shape)
    if x <= 0.0:
        return 0.0
    if math.isinf(x):
        return 1.0
    return _series(shape, x) if x < shape + 1.0 else 1.0 - _fraction(shape, x)


def upper(shape: float, x: float) -> float:
    """Q(shape, x) = 1 - P(shape, x), without losing the digits of a small tail."""
    _check_shape(shape)
    if x <= 0.0:
        return 1.0
    if math.isinf(x):
        return 0.0
    return 1.0 - _series(shape, x) if x < shape + 1.0 else _fraction(shape, x)


def quantile(shape: float, probability: float) -> float:
    """The x with P(shape, x) = probability."""
    _check_shape(shape)
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if probability == 0.0:
        return 0.0
    if probability == 1.0:
        return math.inf
    low, high = 0.0, _first_guess(shape, probability)
    while lower(shape, high) < probability:
        low, high = high, high * 2.0
    x = high
    for _ in range(400):
        error = lower(shape, x) - probability
        if error > 0.0:
            high = x
        else:
            low = x
        slope = math.exp((shape - 1.0) * math.log(x) - x - math.lgamma(shape)) if x > 0 else 0.0
        step = x - error / slope if slope > 0.0 else -1.0
        # Newton where it stays inside the bracket, bisection where it does not.
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - x) <= 1e-14 * following or following == 0.0:
            return following
        x = following
    return x


def _first_guess(shape: float, probability: float) -> float:
    """Wilson and Hilferty's cube, which is close for shapes from one up."""
    z = NormalDist().inv_cdf(min(max(probability, 1e-300), 1.0 - 1e-16))
    cube = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * math.sqrt(shape))
    return max(shape * cube**3, 1e-12)


def _front_factor(shape: float, x: float) -> float:
    return math.exp(shape * math.log(x) - x - math.lgamma(shape))


def _series(shape: float, x: float) -> float:
    term = total = 1.0 / shape
    for n in range(1, _MAX_TERMS):
        term *= x / (shape + n)
        total += term
        if term < total * _RELATIVE_PRECISION:
            break
    return min(1.0, total * _front_factor(shape, x))


def _fraction(shape: float, x: float) -> float:
    """Lentz's continued fraction for the upper tail."""
    tiny = 1e-300
    b = x + 1.0 - shape
    c = 1.0 / tiny
    d = 1.0 / b if b != 0.0 else 1.0 / tiny
    value = d
    for n in range(1, _MAX_TERMS):
        a = -n * (n - shape)
        b += 2.0
        d = a * d + b
        d = 1.0 / (d if d != 0.0 else tiny)
        c = b + a / c
        c = c if c != 0.0 else tiny
        delta = c * d
        value *= delta
        if abs(delta - 1.0) < _RELATIVE_PRECISION:
            break
    return min(1.0, value * _front_factor(shape, x))


def _check_shape(shape: float) -> None:
    if not shape > 0.0:
        raise ValueError(f"a gamma shape is above zero, not {shape}")
