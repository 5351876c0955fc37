"""What was seen of one failure: where runs crashed, and how far others came without.

Each time is the exposure of one run from its own start, in one unit (steps, batches or
seconds). A survival is censored: the run was ended, or finished, before the failure came.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rerail.survival.hazard import Hazard


@dataclass(frozen=True)
class Lifetimes:
    crash_times: tuple[float, ...]
    survivals: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for time in self.crash_times:
            if not (time > 0.0 and math.isfinite(time)):
                raise ValueError(f"a crash time is above zero, not {time}: count its own step")
        for time in self.survivals:
            if not (time >= 0.0 and math.isfinite(time)):
                raise ValueError(f"a survival is a finite time from zero up, not {time}")

    @classmethod
    def of(cls, crash_times: Iterable[float], survivals: Iterable[float] = ()) -> Lifetimes:
        return cls(tuple(map(float, crash_times)), tuple(map(float, survivals)))

    @property
    def crashes(self) -> int:
        return len(self.crash_times)

    @property
    def exposure(self) -> float:
        return math.fsum(self.crash_times) + math.fsum(self.survivals)

    @property
    def all_times(self) -> tuple[float, ...]:
        return self.crash_times + self.survivals

    @cached_property
    def tallied(self) -> tuple[tuple[float, int], ...]:
        """Every time with how often it was seen; runs ended at one length are many and alike."""
        return tuple(Counter(self.all_times).items())

    def powered(self, shape: float, scale: float = 1.0) -> float:
        """The sum of (time / scale) ** shape: exposure on the clock where the rate is constant."""
        return math.fsum(n * (time / scale) ** shape for time, n in self.tallied)

    def hazard(self) -> Hazard:
        """The constant rate that these lifetimes speak for."""
        return Hazard(self.crashes, self.exposure)
