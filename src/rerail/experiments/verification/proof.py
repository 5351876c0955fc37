"""When is a fix proven? The arithmetic of `rerail.survival`, with its own doubt taken into account.

In: a failure model and how long the changed program stayed clean. Out: the probability that this is
luck, and what is still needed. A pattern (the same step every time, more danger with age) is itself
inferred from few crashes: with the chance that it is a coincidence, the constant rate counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.survival import (
    FailureModel,
    clean_stretch_needed,
    constant_rate,
    probability_of_luck,
)

# Nobody waits for more; and to look further takes minutes where the rate grows with age.
MOST_RUNS = 1000


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
    if run_length is not None and luck_of(model, [run_length] * MOST_RUNS) > 1.0 - confidence:
        return Needed(math.inf, 1, f"runs of {run_length:g} are too short to tell")
    plain = clean_stretch_needed(model, confidence, run_length)
    found = Needed(plain.exposure_per_run, plain.runs, plain.reason)
    if not found.is_possible or not _doubt(model):
        return found
    most_luck = 1.0 - confidence
    if luck_of(model, [found.exposure] * found.runs) <= most_luck:
        return found
    why = f"{found.reason}; longer, as so few crashes may agree by chance"
    if run_length is not None and luck_of(model, [run_length]) > most_luck:
        many = _smallest(lambda n: luck_of(model, [run_length] * math.ceil(n)) <= most_luck, 1.0)
        return Needed(run_length, math.ceil(many), why)
    runs = found.runs
    exposure = _smallest(lambda x: luck_of(model, [x] * runs) <= most_luck, found.exposure)
    # The search stops short of the last digits; a run of the whole length was seen to be enough.
    return Needed(exposure if run_length is None else min(exposure, run_length), runs, why)


def _smallest(is_enough: Callable[[float], bool], begin: float) -> float:
    """By doubling and halving, to one part in a million or to a whole unit below that."""
    low, high = begin, 2.0 * begin
    while not is_enough(high):
        low, high = high, 2.0 * high
    while high - low > max(1.0, 1e-6 * high):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _doubt(model: FailureModel) -> float:
    """The chance that the pattern in the crashes is a coincidence of a constant rate."""
    if model.kind in ("unseen", "constant-rate"):
        return 0.0
    known = [finding.p_value for finding in model.findings if finding.p_value is not None]
    return known[-1] if known else 0.0  # the last is the pattern that was taken
