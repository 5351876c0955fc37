"""When is a fix proven? The arithmetic of `rerail.survival`, with its own doubt taken into account.

In: a failure model and how long the changed program stayed clean. Out: the probability that this is
luck, and what is still needed. That crashes come at the same step every time is itself inferred
from few crashes: with the chance that this was a coincidence, the constant rate counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.survival import (
    FailureModel,
    clean_stretch_needed,
    constant_rate,
    probability_of_luck,
)

_LONGEST = 1e15


@dataclass(frozen=True)
class Needed:
    """What would prove it: `runs` clean runs, each of `exposure`."""

    exposure: float
    runs: int
    reason: str

    @property
    def is_possible(self) -> bool:
        return math.isfinite(self.exposure)

    @property
    def total(self) -> float:
        return self.exposure * self.runs


def luck_of(model: FailureModel, clean: Sequence[float]) -> float:
    """How often the unchanged program would have come through these runs."""
    luck = probability_of_luck(model, clean)
    doubt = _doubt(model)
    if not doubt:
        return luck
    by_chance = probability_of_luck(constant_rate(model.lifetimes), clean)
    return (1.0 - doubt) * luck + doubt * by_chance


def needed_for(model: FailureModel, confidence: float, run_length: float | None = None) -> Needed:
    """The cheapest proof by runs of at most `run_length`, if that is known."""
    plain = clean_stretch_needed(model, confidence, run_length)
    found = Needed(plain.exposure_per_run, plain.runs, plain.reason)
    if not found.is_possible or not _doubt(model):
        return found
    most_luck = 1.0 - confidence
    if luck_of(model, [found.exposure] * found.runs) <= most_luck:
        return found
    why = f"{found.reason}; longer, as so few crashes may agree by chance"
    if run_length is not None and luck_of(model, [run_length]) > most_luck:
        runs = 2
        while luck_of(model, [run_length] * runs) > most_luck:
            runs += 1
        return Needed(run_length, runs, why)
    low, high = found.exposure, 2.0 * found.exposure
    while luck_of(model, [high]) > most_luck and high < _LONGEST:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if luck_of(model, [middle]) > most_luck else (low, middle)
    return Needed(high, 1, why)


def _doubt(model: FailureModel) -> float:
    """The chance that crashes at one step were a coincidence of a constant rate."""
    if not model.is_deterministic:
        return 0.0
    return max((finding.p_value or 0.0 for finding in model.findings), default=0.0)
