"""What is a clean stretch worth, and how long must one be? For every kind of failure.

A model and clean runs come in, and the probability goes out that an unchanged program
would have survived them; or a confidence comes in, and the runs that reach it go out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rerail.survival.ageing import ShapePosterior
from rerail.survival.hazard import Hazard
from rerail.survival.model import FailureModel
from rerail.survival.passes import chance_of_misses

_MOST_RUNS = 1_000_000


@dataclass(frozen=True)
class CleanStretch:
    """`runs` clean runs, each of `exposure_per_run`, reach the confidence."""

    exposure_per_run: float
    runs: int
    reason: str

    @property
    def exposure(self) -> float:
        return self.exposure_per_run * self.runs


def probability_of_luck(model: FailureModel, clean_runs: Iterable[float]) -> float:
    """The probability that the unchanged program survives runs of these lengths, all of them."""
    runs = tuple(clean_runs)
    if any(run < 0.0 for run in runs):
        raise ValueError("a clean run is not negative")
    if model.kind == "unseen":
        return 1.0
    if model.kind == "fixed-step":
        return _luck_of_passes(model, sum(run >= model.past_the_step for run in runs))
    if model.kind in ("wear-out", "early"):
        return ShapePosterior(model.lifetimes).luck(runs)
    clean = math.fsum(model.operational_time(run) for run in runs)
    return _hazard_on_clock(model).luck(clean)


def clean_stretch_needed(
    model: FailureModel, confidence: float, run_length: float | None = None
) -> CleanStretch:
    """How long the program has to stay clean before luck is ruled out to this confidence.

    Without `run_length` one run may be as long as it takes; with it, runs of at most
    that length are repeated.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    if run_length is not None and not run_length > 0.0:
        raise ValueError(f"a run's length is above zero, not {run_length}")
    if model.kind == "unseen":
        return CleanStretch(math.inf, 1, "no crash was seen, so no clean stretch can prove a fix")
    if model.kind == "fixed-step":
        return _passes_needed(model, confidence, run_length)
    if run_length is None:
        return _one_run(model, confidence)
    alone = probability_of_luck(model, [run_length])
    if alone >= 1.0:
        return CleanStretch(
            math.inf, 1, f"a run of {run_length:g} ends before the failure could come"
        )
    runs = _fewest(lambda n: probability_of_luck(model, [run_length] * n) <= 1.0 - confidence)
    if runs is None:
        return CleanStretch(math.inf, 1, f"runs of {run_length:g} are too short to tell")
    if runs == 1:
        single = _one_run(model, confidence)
        return (
            single
            if single.exposure_per_run <= run_length
            else CleanStretch(run_length, 1, _reason(model))
        )
    return CleanStretch(run_length, runs, _reason(model))


def _one_run(model: FailureModel, confidence: float) -> CleanStretch:
    if model.kind in ("wear-out", "early"):
        return CleanStretch(_shortest_run(model, confidence), 1, _reason(model))
    needed = _hazard_on_clock(model).stretch_needed(confidence)
    return CleanStretch(model.exposure_for(needed), 1, _reason(model))


def _passes_needed(
    model: FailureModel, confidence: float, run_length: float | None
) -> CleanStretch:
    length = model.past_the_step
    if run_length is not None and run_length < length:
        return CleanStretch(
            math.inf, 1, f"a run of {run_length:g} ends before the step {model.step:g}"
        )
    passes = _fewest(lambda n: _luck_of_passes(model, n) <= 1.0 - confidence)
    if passes is None:
        return CleanStretch(math.inf, 1, "it hardly ever comes: no affordable proof")
    reason = _reason(model)
    if model.is_every_time:
        tells = "one run past that step tells" if passes == 1 else "a few runs past it tell"
        reason = f"it comes at {model.step:g} every time: {tells}"
    return CleanStretch(length, passes, reason)


def _luck_of_passes(model: FailureModel, passes: int) -> float:
    """Passing the step again and again, after the crashes and the survivals there."""
    if passes and model.is_certain and model.is_every_time:
        return 0.0
    return chance_of_misses(model.lifetimes.crashes, model.passes_survived, passes)


def _hazard_on_clock(model: FailureModel) -> Hazard:
    """The constant rate on the model's own clock."""
    exposure = math.fsum(model.operational_time(time) for time in model.lifetimes.all_times)
    floor = (model.period or 0.0) * model.lifetimes.crashes
    return Hazard(model.lifetimes.crashes, max(exposure, floor))


def _shortest_run(model: FailureModel, confidence: float) -> float:
    posterior = ShapePosterior(model.lifetimes)
    low, high = 0.0, max(model.lifetimes.all_times)
    while posterior.luck((high,)) > 1.0 - confidence:
        low, high = high, high * 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if posterior.luck((middle,)) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The smallest count for which `enough` holds, by doubling and halving."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST_RUNS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _reason(model: FailureModel) -> str:
    crashes = model.lifetimes.crashes
    seen = f"{crashes} crash{'es' * (crashes > 1)}"
    if model.kind == "fixed-step":
        return f"it comes at {model.step:g}, but not every time: {seen}"
    if model.kind == "wear-out":
        return f"the longer a run, the more dangerous: only a long run tells ({seen})"
    if model.kind == "early":
        return f"most dangerous at its beginning: many starts tell more than a long run ({seen})"
    if model.period is not None:
        return f"only the boundaries of {model.phase} count, one every {model.period:g} ({seen})"
    return f"{seen} in {model.lifetimes.exposure:g}"
