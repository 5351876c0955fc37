"""Is the rate constant at all? Lifetimes come in; a model of the failure goes out, with why.

The order matters: a fixed step is also a boundary and also looks like wear, a boundary may
look like wear, so the narrowest pattern that chance does not explain is taken. Each pattern
has to be unlikely at a constant rate (below 1 %, ageing below 5 %), as the models pay for a
wrong choice: a random crash taken for a fixed step would be "proven" fixed by one repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rerail.survival.ageing import ShapePosterior, age_test, fit_weibull
from rerail.survival.lifetimes import Lifetimes
from rerail.survival.model import FailureModel, Finding, Kind, constant_rate

PATTERN_LEVEL = 0.01
AGEING_LEVEL = 0.05
# Most failures of programs are deterministic: without a run past the step, less is asked.
UNCONTRADICTED_LEVEL = 0.05
# Near the start of a run times agree by chance at any high rate, and yet what fails there is often
# the start: taken for the rate of every step, one run of ten steps would prove what half of the
# runs pass. So it is the place, but a clean run has to go as far as hardly one would at that rate.
_AT_THE_START = 8.0
_CLEAR = 5.0
# Below this many crashes a shape cannot be told from chance.
_CRASHES_FOR_AGEING = 3


def classify(
    crash_times: Iterable[float],
    survivals: Iterable[float] = (),
    periods: Mapping[str, float] | None = None,
    memory_at_crash: Sequence[float] = (),
    resolution: float = 1.0,
) -> FailureModel:
    """What kind of failure these runs show.

    `periods` names what recurs in the program and how often: {"accumulation": 4,
    "epoch": 1122}. `memory_at_crash` is the memory in use at each crash, in the same order.
    `resolution` is how exactly a time is known: 1 for steps, some tenths for seconds.
    """
    if not resolution > 0.0:
        raise ValueError(f"a resolution is above zero, not {resolution}")
    lifetimes = Lifetimes.of(crash_times, survivals)
    if lifetimes.crashes == 0:
        return constant_rate(lifetimes)
    findings: list[Finding] = []
    pattern = (
        _fixed_step(lifetimes, resolution, findings)
        or _boundary(lifetimes, periods or {}, resolution, findings)
        or _ageing(lifetimes, memory_at_crash, findings)
        or constant_rate(lifetimes)
    )
    if pattern.kind == "constant-rate" and lifetimes.crashes < _CRASHES_FOR_AGEING:
        count = lifetimes.crashes
        findings.append(Finding(f"{count} crash{'es' * (count > 1)} cannot show a changing rate"))
    return replace(pattern, findings=tuple(findings), resolution=resolution)


def _fixed_step(
    lifetimes: Lifetimes, resolution: float, findings: list[Finding]
) -> FailureModel | None:
    if lifetimes.crashes < 2:
        return None
    first, last = min(lifetimes.crash_times), max(lifetimes.crash_times)
    if last - first > max(resolution, 0.001 * last):
        return None
    # The chance that the others fall so near to the first at a constant rate: the density at
    # the mean, 1 / (e * mean), over the stretch in which they would have looked as close.
    width = 2.0 * (last - first) + resolution
    chance = min(1.0, width / (math.e * lifetimes.hazard().mean_time_to_failure))
    chance **= lifetimes.crashes - 1
    where = f"{last:g}" if first == last else f"{first:g} to {last:g}"
    findings.append(Finding(f"all {lifetimes.crashes} crashes came at {where}", chance))
    came_past = [time for time in lifetimes.survivals if time > last + resolution]
    clearance = 1.0
    if chance >= (PATTERN_LEVEL if came_past else UNCONTRADICTED_LEVEL):
        if last > _AT_THE_START * resolution:
            return None
        clearance = _CLEAR
    if came_past:
        findings.append(Finding(f"{len(came_past)} runs came past it: not every time"))
    return FailureModel("fixed-step", lifetimes, step=last, clearance=clearance)


def _boundary(
    lifetimes: Lifetimes,
    periods: Mapping[str, float],
    resolution: float,
    findings: list[Finding],
) -> FailureModel | None:
    """The period whose boundary the crashes hug, if chance does not explain it."""
    count = lifetimes.crashes
    if count < 2:
        return None
    best: tuple[float, FailureModel, Finding] | None = None
    for name, period in periods.items():
        if not period > resolution:
            continue
        residues = [math.fmod(time, period) for time in lifetimes.crash_times]
        centre = residues[0]
        if period - centre <= resolution:
            centre -= period  # just before a boundary rather than a whole period after one
        near_zero = all(min(r, period - r) <= resolution for r in residues)
        near_first = all(_circular(r - residues[0], period) < 0.5 * resolution for r in residues)
        chances = []
        if near_zero:
            chances.append((min(1.0, 3.0 * resolution / period)) ** count)
        if near_first:
            chances.append(min(1.0, resolution / period) ** (count - 1))
        if not chances:
            continue
        chance = min(1.0, min(chances) * len(periods))
        offset = 0.0 if near_zero and not near_first else centre
        where = "at the boundary" if abs(offset) <= resolution else f"{offset:g} into the period"
        finding = Finding(f"all {count} crashes came {where} of {name} ({period:g})", chance)
        kind: Kind = "accumulation-boundary" if "accum" in name else "phase-boundary"
        model = FailureModel(kind, lifetimes, period=period, phase=name, offset=offset)
        if best is None or chance < best[0]:
            best = chance, model, finding
    if best is None:
        return None
    findings.append(best[2])
    return best[1] if best[0] < PATTERN_LEVEL else None


def _ageing(
    lifetimes: Lifetimes, memory_at_crash: Sequence[float], findings: list[Finding]
) -> FailureModel | None:
    if lifetimes.crashes < _CRASHES_FOR_AGEING:
        return None
    test = age_test(lifetimes)
    fit = fit_weibull(lifetimes)
    assert test is not None
    posterior = ShapePosterior(lifetimes)
    shape = posterior.mean_shape
    scale = (lifetimes.powered(shape) / lifetimes.crashes) ** (1.0 / shape)
    fitted = f"Weibull shape {fit.shape:.2g}" if fit else "every crash at one time"
    with_memory = _same_memory(lifetimes, memory_at_crash)
    if with_memory:
        findings.append(Finding("every crash came at nearly the same memory in use"))
    if test.p_wear_out < AGEING_LEVEL or (with_memory and test.p_wear_out < 0.5):
        findings.append(Finding(f"the longer a run, the more dangerous: {fitted}", test.p_wear_out))
        return FailureModel("wear-out", lifetimes, shape=shape, scale=scale)
    if test.p_early < AGEING_LEVEL:
        findings.append(Finding(f"most dangerous at its beginning: {fitted}", test.p_early))
        return FailureModel("early", lifetimes, shape=shape, scale=scale)
    p = 2.0 * min(test.p_wear_out, test.p_early)
    findings.append(Finding(f"a constant rate explains the crash times ({fitted})", p))
    return None


def _same_memory(lifetimes: Lifetimes, memory: Sequence[float]) -> bool:
    """Memory at death varies far less than time of death: the limit is what kills."""
    if len(memory) != lifetimes.crashes or min(memory, default=0.0) <= 0.0:
        return False
    return _variation(memory) < min(0.05, _variation(lifetimes.crash_times) / 3.0)


def _variation(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    square = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return math.sqrt(square) / mean


def _circular(difference: float, period: float) -> float:
    distance = math.fmod(abs(difference), period)
    return min(distance, period - distance)
