"""Which trial beside those that are under way? By what it tells that they do not.

In: the posterior, and the trials under way with what they may still run. Out: a set of changes and
an exposure. What the trials under way may show is enumerated, the likeliest outcomes of all of
them together, and the new trial is the one that is expected to tell most about the *answer* for
its cost, averaged over these. A second copy of a trial is worth little where the first will show
the same, and much where only a long clean stretch is missing: then copies are what is chosen.

Given a hypothesis, trials are taken as independent. Docs: docs/design/which-trial-next.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.experiments.planner.planner import ALONE, EITHER, GONE, TOGETHER, Choice, Outlook
from rerail.experiments.planner.posterior import Posterior

# Of the joint outcomes of the trials under way, the likeliest are weighed; first by a few.
_MOST_OUTCOMES = 12
_FEW_OUTCOMES = 4
_LEAST_CHANCE = 1e-3
_LENGTHS = (0.3, 1.0)  # in mean times to failure
_FINALISTS = 6


@dataclass(frozen=True)
class UnderWay:
    applied: int
    left: float  # what it may still run, on the model's clock


def choose_beside(
    posterior: Posterior,
    count: int,
    confidence: float,
    overhead: float,
    exclusive: Sequence[int],
    run_length: float,
    under_way: Sequence[UnderWay],
) -> Choice:
    """The arguments before `under_way` are those of `choose_trial`."""
    outlook = Outlook(posterior, count, confidence, exclusive, overhead, run_length)
    weighing = _Weighing(outlook, under_way)
    first, *others = sorted({min(length * outlook.mean, run_length) for length in _LENGTHS})
    found = [weighing.weigh(applied, first, _FEW_OUTCOMES) for applied in set(outlook.candidates())]
    found.sort(key=lambda choice: (-choice.merit, choice.applied))
    finalists = [
        weighing.weigh(choice.applied, length, _MOST_OUTCOMES)
        for choice in found[:_FINALISTS]
        for length in (first, *others)
    ]
    return max(finalists, key=lambda choice: choice.merit)


class _Weighing:
    def __init__(self, outlook: Outlook, under_way: Sequence[UnderWay]) -> None:
        self._outlook = outlook
        self._answers = _answers(outlook)
        self._outcomes = self._joint_outcomes(under_way)

    def weigh(self, applied: int, length: float, most: int) -> Choice:
        """What a trial tells about the answer, in nats per exposure spent."""
        crashes = self._crash_chances(applied, length)
        told = crashed = total = 0.0
        for weights in self._outcomes[:most]:
            mass: dict[int, float] = {}
            hit: dict[int, float] = {}
            for answer, weight, chance in zip(self._answers, weights, crashes, strict=True):
                mass[answer] = mass.get(answer, 0.0) + weight
                hit[answer] = hit.get(answer, 0.0) + weight * chance
            every, hits = math.fsum(mass.values()), math.fsum(hit.values())
            told += every * _entropy(hits / every)
            told -= math.fsum(mass[a] * _entropy(hit[a] / mass[a]) for a in mass if hit[a])
            crashed += hits
            total += every
        # A crash comes half-way, on average, and each run has to be started.
        cost = length * (1.0 - 0.5 * crashed / total) + self._outlook.overhead
        return Choice(applied, length, told / total / cost)

    def _joint_outcomes(self, under_way: Sequence[UnderWay]) -> list[list[float]]:
        """For each joint outcome, the likeliest first, its chance with each hypothesis."""
        outcomes = [list(self._outlook.chances)]
        for each in under_way:
            if each.left <= 0.0:
                continue
            chances = self._crash_chances(each.applied, each.left)
            split = []
            for weights in outcomes:
                crashed = [w * chance for w, chance in zip(weights, chances, strict=True)]
                survived = [w - hit for w, hit in zip(weights, crashed, strict=True)]
                split += [(math.fsum(crashed), crashed), (math.fsum(survived), survived)]
            split.sort(key=lambda pair: -pair[0])
            outcomes = [w for chance, w in split[:_MOST_OUTCOMES] if chance > _LEAST_CHANCE]
        return outcomes

    def _crash_chances(self, applied: int, length: float) -> list[float]:
        """By hypothesis, that a trial crashes within `length`."""
        outlook = self._outlook
        known: dict[tuple[float, float], float] = {}
        found = []
        for weighed in outlook.weighed:
            rate = weighed.hypothesis.rate(applied)
            if rate == 0.0:
                found.append(0.0)
                continue
            seen = (weighed.at_risk if outlook.step is None else weighed.misses), rate
            if seen not in known:
                known[seen] = 1.0 - outlook.survival(*seen, length)[0]
            found.append(known[seen])
        return found


def _answers(outlook: Outlook) -> list[int]:
    """By hypothesis, the verdict that it leads to, as a number.

    Of changes of which each suffices, the likeliest is the answer; what makes the failure rarer
    removes it no more than nothing does.
    """
    none, gone = outlook.count, outlook.count + 1
    answers = []
    for at, (code, members) in enumerate(outlook.rows):
        if code in (ALONE, EITHER):
            answers.append(members[0])
        elif code == TOGETHER:
            answers.append(gone + 1 + at)
        else:
            answers.append(gone if code == GONE else none)
    return answers


def _entropy(chance: float) -> float:
    if not 0.0 < chance < 1.0:
        return 0.0
    return -chance * math.log(chance) - (1.0 - chance) * math.log1p(-chance)
