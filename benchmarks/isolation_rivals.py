"""What else one could do to find the change: one factor at a time, ddmin, random order.

Each takes an imaginary command and answers like an investigation of rerail's, at the same
confidence.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from benchmarks.isolation_truths import CHANGES, Answer, Setting, World, diagnosis_weights
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import TrialResult
from rerail.survival import Hazard


def draw_in_random_order(investigation: Investigation, rng: random.Random) -> frozenset[str]:
    """A change that no crash has ruled out; once all are, a pair."""
    crashed = [trial.changes for trial in investigation.trials if trial.outcome == "crashed"]
    for size in (1, 2):
        sets = map(frozenset, itertools.combinations(CHANGES, size))
        left = [each for each in sets if not any(each <= changes for changes in crashed)]
        if left:
            return rng.choice(left)
    return frozenset(CHANGES)


class CleanStretchTest:
    """Does the failure come under these changes? Runs until a crash or a long enough stretch."""

    def __init__(self, world: World, setting: Setting, tests: int) -> None:
        self.world = world
        crashed, clean = world.history(setting.history)
        self.crashes, self.exposure = len(crashed), sum(crashed) + sum(clean)
        self.luck = (1.0 - setting.confidence) / tests
        # More crashes of the unchanged command first, where that makes the stretches shorter.
        while self.crashes < math.log(1.0 / self.luck):
            self._note(world.run(frozenset(), world.run_steps))

    def fails(self, applied: frozenset[str]) -> bool:
        stretch = 0.0
        while Hazard(self.crashes, self.exposure).luck(stretch) > self.luck:
            result = self.world.run(applied, math.inf)
            if result.outcome == "crashed":
                self.exposure += stretch
                self._note(result)
                return True
            stretch += result.exposure
        return False

    def _note(self, result: TrialResult) -> None:
        self.crashes += result.outcome == "crashed"
        self.exposure += result.exposure


def one_factor_at_a_time(world: World, setting: Setting) -> Answer:
    test = CleanStretchTest(world, setting, len(CHANGES))
    order = list(CHANGES)
    if setting.with_diagnosis:
        weights = diagnosis_weights(world.truth, world.rng)
        order.sort(key=lambda change: -weights[change])
    for change in order:
        if not test.fails(frozenset((change,))):
            return frozenset((change,))
    return frozenset()


def ddmin(world: World, setting: Setting) -> Answer:
    """Zeller's minimising delta debugging of the set of changes under which nothing fails."""
    test = CleanStretchTest(world, setting, len(CHANGES))
    kept = list(CHANGES)
    if test.fails(frozenset(kept)):
        return frozenset()
    pieces = 2
    while len(kept) >= 2:
        size = math.ceil(len(kept) / pieces)
        parts = [kept[i : i + size] for i in range(0, len(kept), size)]
        for smaller, next_pieces in _reductions(kept, parts, pieces):
            if not test.fails(frozenset(smaller)):
                kept, pieces = smaller, next_pieces
                break
        else:
            if pieces >= len(kept):
                break
            pieces = min(2 * pieces, len(kept))
    return frozenset(kept)


def _reductions(
    kept: list[str], parts: list[list[str]], pieces: int
) -> Iterator[tuple[list[str], int]]:
    for part in parts:
        yield part, 2
    if pieces > 2:
        for part in parts:
            yield [change for change in kept if change not in part], max(pieces - 1, 2)
