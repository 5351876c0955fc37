"""Does the rate stay constant, grow with age (a leak), or fall (trouble at the start)?

Comes in: lifetimes of runs. Goes out: a small-sample test on total time on test, the
Weibull shape by maximum likelihood, the shape's posterior on a grid, and the luck of a clean
stretch averaged over that posterior. Nothing here decides; `classify` does.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass
from functools import cached_property

from rerail.survival.lifetimes import Lifetimes

# Shapes from "dies young" to "dies at nearly the same age"; even steps in the logarithm.
SHAPES = tuple(math.exp(math.log(0.3) + i * math.log(16.0 / 0.3) / 80.0) for i in range(81))
# Before anything is seen: centred on a constant rate, and e.g. 3 or 1/3 is one deviation away.
_LOG_SHAPE_DEVIATION = 1.0


@dataclass(frozen=True)
class AgeTest:
    """`statistic` is below 0.5 for early deaths and above it for wear."""

    statistic: float
    p_wear_out: float  # chance of so much wear, or more, at a constant rate
    p_early: float


def age_test(lifetimes: Lifetimes) -> AgeTest | None:
    """The cumulative total-time-on-test statistic, Laplace's test for lifetimes.

    At a constant rate the scaled totals are uniform order statistics, so their mean has Irwin
    and Hall's distribution: exactly when every run crashed, and nearly (a 5 % test errs in up
    to 8 %) when runs were ended at a fixed length. Needs two crashes.
    """
    count = lifetimes.crashes
    if count < 2:
        return None
    times = sorted(lifetimes.all_times)
    sums = [0.0, *itertools.accumulate(times)]
    totals = []
    for crash in sorted(lifetimes.crash_times):
        over = bisect.bisect_right(times, crash)
        totals.append(sums[over] + crash * (len(times) - over))
    # The last total is the scale itself; exposure beyond the last crash is no evidence on shape.
    scaled = [total / totals[-1] for total in totals[:-1]]
    total = math.fsum(scaled)
    at_most = _irwin_hall(len(scaled), total)
    return AgeTest(total / len(scaled), 1.0 - at_most, at_most)


def laplace_trend(event_times: list[float], observed_until: float) -> float:
    """Laplace's z for events of one story (restarts of one run): above 0, they come faster."""
    if not event_times or not 0.0 <= min(event_times) <= max(event_times) <= observed_until:
        raise ValueError("events lie between zero and the end of the observation")
    count = len(event_times)
    mean = math.fsum(event_times) / count
    return (mean - 0.5 * observed_until) / (observed_until * math.sqrt(1.0 / (12.0 * count)))


@dataclass(frozen=True)
class WeibullFit:
    shape: float
    scale: float
    log_likelihood: float


def fit_weibull(lifetimes: Lifetimes) -> WeibullFit | None:
    """Maximum likelihood with censoring; None below two different crash times."""
    crashes = lifetimes.crashes
    if crashes < 2 or len(set(lifetimes.crash_times)) < 2:
        return None
    unit = max(lifetimes.all_times)
    logs = [(time / unit, math.log(time / unit), n) for time, n in lifetimes.tallied if time > 0.0]
    mean_log = math.fsum(math.log(time / unit) for time in lifetimes.crash_times) / crashes

    def score(shape: float) -> float:
        weights = [n * time**shape for time, _, n in logs]
        weighted = math.fsum(w * log for w, (_, log, _) in zip(weights, logs, strict=True))
        return 1.0 / shape + mean_log - weighted / math.fsum(weights)

    low, high = 1e-3, 1.0
    while score(high) > 0.0 and high < 1e6:
        low, high = high, high * 2.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if score(middle) > 0.0 else (low, middle)
    shape = 0.5 * (low + high)
    scale = unit * (lifetimes.powered(shape, unit) / crashes) ** (1.0 / shape)
    likelihood = crashes * (math.log(shape) - shape * math.log(scale)) - crashes
    likelihood += (shape - 1.0) * math.fsum(map(math.log, lifetimes.crash_times))
    return WeibullFit(shape, scale, likelihood)


@dataclass(frozen=True)
class ShapePosterior:
    """The Weibull shape after the crashes, the scale integrated out."""

    lifetimes: Lifetimes

    @cached_property
    def weights(self) -> tuple[float, ...]:
        logs = [
            -0.5 * (math.log(shape) / _LOG_SHAPE_DEVIATION) ** 2
            + log_marginal(self.lifetimes, shape)
            for shape in SHAPES
        ]
        top = max(logs)
        raw = [math.exp(value - top) for value in logs]
        total = math.fsum(raw)
        return tuple(value / total for value in raw)

    @cached_property
    def mean_shape(self) -> float:
        """The geometric mean, as the grid is even in the logarithm."""
        pairs = zip(self.weights, SHAPES, strict=True)
        return math.exp(math.fsum(weight * math.log(shape) for weight, shape in pairs))

    def luck(self, stretches: tuple[float, ...]) -> float:
        """The probability that unchanged runs of these lengths, each from its start, all survive.

        Averaged over the shape, so that three crashes that happen to lie close together
        do not make a short stretch look like proof.
        """
        crashes = self.lifetimes.crashes
        unit = max(self.lifetimes.all_times)
        total = 0.0
        for weight, shape in zip(self.weights, SHAPES, strict=True):
            if weight > 1e-12:
                clean = math.fsum((stretch / unit) ** shape for stretch in stretches)
                seen = self.lifetimes.powered(shape, unit)
                total += weight * math.exp(-crashes * math.log1p(clean / seen))
        return min(1.0, total)


def log_marginal(lifetimes: Lifetimes, shape: float) -> float:
    """The log likelihood of a shape with the scale integrated out (flat in its logarithm)."""
    crashes = lifetimes.crashes
    unit = max(lifetimes.all_times)
    logs = math.fsum(math.log(time / unit) for time in lifetimes.crash_times)
    return (
        (crashes - 1) * math.log(shape)
        + (shape - 1.0) * logs
        - crashes * math.log(lifetimes.powered(shape, unit))
    )


def _irwin_hall(count: int, total: float) -> float:
    """The probability that `count` uniform numbers add up to at most `total`."""
    if total <= 0.0:
        return 0.0
    if total >= count:
        return 1.0
    if count > 20:
        # The alternating sum loses its digits here, and the normal curve is exact to 1e-3.
        z = (total - 0.5 * count) / math.sqrt(count / 12.0)
        return 0.5 * math.erfc(-z / math.sqrt(2.0))
    if total > 0.5 * count:
        return 1.0 - _irwin_hall(count, count - total)
    terms = (
        (-1) ** j * math.comb(count, j) * (total - j) ** count for j in range(math.floor(total) + 1)
    )
    return math.fsum(terms) / math.factorial(count)
