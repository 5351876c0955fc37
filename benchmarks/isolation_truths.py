"""Imaginary commands that fail at random, and of which it is known what removes the failure.

A truth says how often the failure comes under which changes; a world runs it and keeps the account.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.experiments.planner.observation import TrialResult

MEAN_STEPS = 1000.0
RACE_STEP = 40.0
CHANGES = tuple(f"change-{i:02}" for i in range(16))
# Versions: of each pair a trial has one, as of 'numpy<2' and 'numpy<1.26'.
VERSION_PAIRS = tuple(zip(CHANGES[::2], CHANGES[1::2], strict=True))


@dataclass(frozen=True)
class Truth:
    """`rate(applied)` is the failure's rate as a share of the unchanged one."""

    rate: Callable[[frozenset[str]], float]
    answers: tuple[frozenset[str], ...]  # empty: none of these
    culprit: str | None


def draw_truth(kind: str, rng: random.Random, among: Sequence[str] = CHANGES) -> Truth:
    one, other = rng.sample(among, 2)
    if kind == "either version":
        kind, (one, other) = "either", rng.choice(VERSION_PAIRS)
    both = frozenset((one, other))
    if kind == "together" and both in map(frozenset, VERSION_PAIRS):
        return draw_truth(kind, rng, among)  # no trial has both
    if kind == "single":
        return Truth(lambda s: 0.0 if one in s else 1.0, (frozenset((one,)),), one)
    if kind == "together":
        return Truth(lambda s: 0.0 if both <= s else 1.0, (both,), one)
    if kind == "commit":  # the failure came after `one`: this commit and those before it are clean
        clean = frozenset(among[: among.index(one) + 1])
        return Truth(lambda s: 0.0 if s & clean else 1.0, (frozenset((one,)),), one)
    if kind == "two sources":  # each change removes one of two failures that look the same
        return Truth(lambda s: 1.0 - 0.5 * len(both & s), (both,), one)
    if kind == "either":
        answers = (frozenset((one,)), frozenset((other,)))
        return Truth(lambda s: 0.0 if both & s else 1.0, answers, one)
    if kind == "none":
        return Truth(lambda s: 1.0, (), None)
    if kind == "halved":
        return Truth(lambda s: 0.5 if one in s else 1.0, (), one)
    if kind == "single, others halve":
        return Truth(
            lambda s: 0.0 if one in s else 0.5 if other in s else 1.0, (frozenset((one,)),), one
        )
    raise ValueError(kind)


@dataclass
class World:
    """Runs the imaginary command; keeps the account."""

    truth: Truth
    run_steps: float
    rng: random.Random
    shape: float = 1.0  # of the Weibull distribution: above 1 wears out
    spread: float = 0.0  # how much the rate differs from run to run (log deviation)
    race: float = 0.0  # the chance of a failure at one place of a run and nowhere else
    used_steps: float = 0.0
    runs: int = 0
    elapsed_steps: float = 0.0  # on the clock, with starts; less than was used where trials overlap

    def run(self, applied: frozenset[str], limit: float) -> TrialResult:
        crash, end = self.draw(applied, limit)
        self.used_steps += min(crash, end)
        if crash <= end:
            return TrialResult.of(applied, max(crash, 1), "crashed")
        return TrialResult.of(applied, end, "survived")

    def draw(self, applied: frozenset[str], limit: float) -> tuple[float, int]:
        """Where a run crashes, and where it ends if it does not."""
        rate = self.truth.rate(applied) * math.exp(self.rng.gauss(0.0, self.spread))
        end = math.ceil(min(limit, self.run_steps))
        crash = math.inf
        if self.race:
            crash = RACE_STEP if self.rng.random() < self.race * rate else math.inf
        elif rate > 0.0:
            scale = MEAN_STEPS / math.gamma(1.0 + 1.0 / self.shape)
            crash = math.ceil(self.rng.weibullvariate(scale / rate ** (1 / self.shape), self.shape))
        self.runs += 1
        return crash, end

    def history(self, crashes: int) -> tuple[list[float], list[float]]:
        """What was on record before: runs until so many had crashed; free of charge."""
        crashed: list[float] = []
        clean: list[float] = []
        while len(crashed) < crashes:
            result = self.run(frozenset(), math.inf)
            (crashed if result.outcome == "crashed" else clean).append(result.exposure)
        self.used_steps, self.runs = 0.0, 0
        return crashed, clean


@dataclass(frozen=True)
class Setting:
    strategy: str
    kind: str
    crash_probability: float
    history: int
    confidence: float
    with_diagnosis: bool = False
    shape: float = 1.0
    spread: float = 0.0
    is_race: bool = False
    has_versions: bool = False  # the changes are values of eight things, two of each
    changes: int = len(CHANGES)
    jobs: int = 1
    start_means: float = 0.02  # what starting a run takes


Answer = frozenset[str] | None  # an empty set says none of these; None says nothing


def diagnosis_weights(truth: Truth, rng: random.Random) -> dict[str, float]:
    """A diagnosis that names the right change first in 7 of 10 cases, second or third in 2."""
    weights = dict.fromkeys(CHANGES, 1.0)
    names = rng.sample(CHANGES, 3)
    place = rng.choices((0, 1, 2, None), (0.7, 0.12, 0.08, 0.1))[0]
    if truth.culprit and place is not None:
        names = [name for name in names if name != truth.culprit]
        names.insert(place, truth.culprit)
    for name, weight in zip(names, (15.0, 6.0, 3.0), strict=False):
        weights[name] = weight
    return weights
