"""How often does it crash, and is a clean stretch luck? For a rate that is constant.

Comes in: how many crashes in how much exposure (steps or seconds, all runs together,
crashed and clean ones). Goes out: the rate with its uncertainty, and what a clean stretch
is worth. With k crashes in S, the rate's posterior under the scale-free prior is gamma
with shape k and rate S, so a stretch T is clean by luck with probability (S / (S + T))^k.
That is also the exact long-run frequency: it holds for every true rate, not on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rerail.survival import gamma


@dataclass(frozen=True)
class Hazard:
    """What `crashes` in `exposure` say about a constant rate."""

    crashes: int
    exposure: float

    def __post_init__(self) -> None:
        if self.crashes < 0:
            raise ValueError(f"a number of crashes is not negative: {self.crashes}")
        if not (self.exposure >= 0.0 and math.isfinite(self.exposure)):
            raise ValueError(f"exposure is a finite number from zero up, not {self.exposure}")
        if self.crashes and self.exposure == 0.0:
            raise ValueError("a crash needs some exposure: count the step that it died in")

    @property
    def rate(self) -> float:
        """Crashes per unit of exposure; 0.0 while none was seen."""
        return self.crashes / self.exposure if self.crashes else 0.0

    @property
    def mean_time_to_failure(self) -> float:
        """The estimated mean exposure to a crash; infinite while none was seen."""
        return self.exposure / self.crashes if self.crashes else math.inf

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central interval of the rate's posterior; without a crash, zero to a bound."""
        _check_confidence(level)
        if self.crashes == 0:
            return 0.0, self.upper_bound(level)
        tail = 0.5 * (1.0 - level)
        return (
            gamma.quantile(self.crashes, tail) / self.exposure,
            gamma.quantile(self.crashes, 1.0 - tail) / self.exposure,
        )

    def exact_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Garwood's interval: covers the true rate at least this often, whatever ended the runs."""
        _check_confidence(level)
        if self.exposure == 0.0:
            return 0.0, math.inf
        tail = 0.5 * (1.0 - level)
        low = gamma.quantile(self.crashes, tail) / self.exposure if self.crashes else 0.0
        return low, gamma.quantile(self.crashes + 1, 1.0 - tail) / self.exposure

    def upper_bound(self, level: float = 0.95) -> float:
        """The rate is below this: after n clean units at 95 %, the rule of three (3.0 / n)."""
        _check_confidence(level)
        if self.exposure == 0.0:
            return math.inf
        return gamma.quantile(self.crashes + 1, level) / self.exposure

    def luck(self, stretch: float) -> float:
        """The probability that an unchanged program survives `stretch` more, cleanly."""
        if stretch < 0.0:
            raise ValueError(f"a clean stretch is not negative: {stretch}")
        if self.crashes == 0 or stretch == 0.0:
            return 1.0
        return math.exp(-self.crashes * math.log1p(stretch / self.exposure))

    def chance_above(self, other: Hazard) -> float:
        """The probability that this rate is above `other`'s, both from what was seen of each.

        Both rates have gamma posteriors over the scale-free prior, so the share of one in their
        sum is beta distributed, and with whole counts its tail is a binomial one.
        """
        if not (self.crashes and other.crashes):
            # A rate without a crash may be as low as one likes.
            return 0.5 if self.crashes == other.crashes else float(self.crashes > 0)
        share = other.exposure / (self.exposure + other.exposure)
        draws = self.crashes + other.crashes - 1
        return math.fsum(
            math.comb(draws, hits) * share**hits * (1.0 - share) ** (draws - hits)
            for hits in range(other.crashes, draws + 1)
        )

    def stretch_needed(self, confidence: float) -> float:
        """The clean stretch whose luck is 1 - confidence; infinite while no crash was seen."""
        _check_confidence(confidence)
        if self.crashes == 0:
            return math.inf
        return self.exposure * math.expm1(-math.log1p(-confidence) / self.crashes)


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
