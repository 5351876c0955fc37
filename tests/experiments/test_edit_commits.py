"""Which commit brought it: over simulated histories, wrong no more often than it says."""

from __future__ import annotations

import math
import random

import pytest

from rerail.experiments.planner.commits import CommitSearch
from rerail.experiments.planner.observation import Plan, TrialResult

CONFIDENCE = 0.95
MOST_TRIALS = 600
# Of 200 answers at 95 %, more wrong ones than this come by chance in less than 1 of 500.
MOST_WRONG = 20


def search_of(count: int, **more: object) -> CommitSearch:
    changes = [f"git:{i}" for i in range(count)]
    return CommitSearch(changes, confidence=CONFIDENCE, **more)  # type: ignore[arg-type]


def steps_back(plan: Plan, count: int) -> int:
    return count - int(plan.changes[0].removeprefix("git:")) if plan.changes else 0


def run_commit(plan: Plan, is_bad: bool, chance: float, draw: random.Random) -> TrialResult:
    """A short program that fails at its third step in some of its runs, and else ends at ten."""
    if is_bad and draw.random() < chance:
        return TrialResult.of(plan.changes, 3, "crashed")
    return TrialResult.of(plan.changes, 10, "survived", True)


def found(count: int, first_bad: int, chance: float, draw: random.Random) -> CommitSearch:
    search = search_of(count)
    for _ in range(MOST_TRIALS):
        plan = search.next_trial()
        if plan is None:
            break
        search.record(run_commit(plan, steps_back(plan, count) <= first_bad, chance, draw))
    return search


RARE = [pytest.param(chance, marks=pytest.mark.slow) for chance in (0.2, 0.1)]


@pytest.mark.thorough
@pytest.mark.parametrize("chance", [1.0, 0.5, *RARE])
def test_the_right_commit_within_the_stated_risk(chance: float) -> None:
    draw = random.Random(17)
    wrong = 0
    for _ in range(200):
        count = draw.choice([10, 10, 10, 15, 20, 60])
        first_bad = draw.randrange(count)
        search = found(count, first_bad, chance, draw)
        verdict = search.verdict()
        wrong += verdict.status != "inconclusive" and search.first_bad() != [first_bad]
    assert wrong <= MOST_WRONG


@pytest.mark.thorough
def test_a_failure_at_a_constant_rate() -> None:
    draw = random.Random(5)
    count, wrong = 20, 0
    for _ in range(200):
        first_bad = draw.randrange(count)
        search = search_of(count)
        search.run_length = 300.0
        for _ in range(MOST_TRIALS):
            plan = search.next_trial()
            if plan is None:
                break
            is_bad = steps_back(plan, count) <= first_bad
            dies = math.ceil(draw.expovariate(0.01)) if is_bad else math.inf
            limit = min(300.0, plan.exposure_limit)
            crashed = dies < limit
            search.record(
                TrialResult.of(plan.changes, dies, "crashed")
                if crashed
                else TrialResult.of(plan.changes, limit, "survived", limit == 300.0)
            )
        wrong += search.verdict().status != "inconclusive" and search.first_bad() != [first_bad]
    assert wrong <= MOST_WRONG


def test_fewer_runs_than_halving_with_repeats_where_the_chance_is_unknown() -> None:
    """`git bisect run` has to repeat a clean commit as often as the rarest failure would take."""
    count, draw = 30, random.Random(3)
    repeats = math.ceil(math.log((1 - CONFIDENCE) / math.log2(count)) / math.log(1 - 0.2))
    mine = theirs = 0
    for _ in range(40):
        first_bad = draw.randrange(count)
        mine += len(found(count, first_bad, 1.0, draw).trials)
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            is_bad = middle <= first_bad
            theirs += 1 if is_bad else repeats
            low, high = (middle, high) if is_bad else (low, middle)
    assert mine < theirs / 2


def test_a_failure_that_is_older_than_the_good_commit() -> None:
    search = found(10, 10, 1.0, random.Random(1))
    assert search.verdict().status == "none-of-these"
    assert "said to be good fails too" in search.verdict().reason


def test_commits_that_cannot_be_run_stay_together() -> None:
    """git:6 is broken: whether it or git:7 brought the failure cannot be told."""
    search = search_of(10, untestable=["git:6"])
    draw = random.Random(2)
    while plan := search.next_trial():
        assert plan.changes != ("git:6",)
        search.record(run_commit(plan, steps_back(plan, 10) <= 3, 1.0, draw))
    verdict = search.verdict()
    assert verdict.status == "confirmed"
    assert search.first_bad() == [3, 4]
    assert verdict.changes == ("git:5",)


def test_told_the_same_it_asks_the_same() -> None:
    one, other = (found(20, 7, 0.5, random.Random(9)) for _ in range(2))
    assert one.trials == other.trials
