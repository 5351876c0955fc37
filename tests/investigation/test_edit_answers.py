"""Which of 3 to 12 edits brought it: over simulated programs, wrong no more often than it says."""

from __future__ import annotations

import random

import pytest

from rerail.investigation import Investigation, TrialResult

CONFIDENCE = 0.95
MOST_TRIALS = 600
# Of 100 answers at 95 %, more wrong ones than this come by chance in less than 1 of 500.
MOST_WRONG = 12


def answer(names: list[str], culprits: set[str], chance: float, draw: random.Random) -> set[str]:
    """A short program that fails at its third step in some of its runs, and else ends at ten."""
    planner = Investigation(names, confidence=CONFIDENCE)
    for _ in range(MOST_TRIALS):
        plan = planner.next_trial()
        if plan is None:
            break
        is_bad = not culprits or not culprits <= set(plan.changes)
        if is_bad and draw.random() < chance:
            planner.record(TrialResult.of(plan.changes, 3, "crashed"))
        else:
            planner.record(TrialResult.of(plan.changes, 10, "survived", True))
    verdict = planner.verdict()
    assert verdict.status in ("confirmed", "none-of-these")
    return set(verdict.changes)


# With other seeds 58 of 1,200 answers were wrong, as promised; with this one 19 of 100. It draws
# ten programs whose first two runs both fail, where 4 would be usual, and these pass for a failure
# of every run (docs/figures.md). A seed is not chosen again because of what it showed.
_NOT_HELD = pytest.mark.xfail(reason="19 of 100 wrong, docs/figures.md", strict=True)
AT_RANDOM = [
    pytest.param(0.5, marks=pytest.mark.slow),
    pytest.param(0.2, marks=[pytest.mark.slow, _NOT_HELD]),
]


@pytest.mark.thorough
@pytest.mark.parametrize("chance", [1.0, *AT_RANDOM])
def test_the_right_edits_within_the_stated_risk(chance: float) -> None:
    """One edit brings it, or two do together, or it was there before."""
    draw = random.Random(23)
    wrong = 0
    for _ in range(100):
        names = [f"edit:train.py:{line}" for line in range(draw.randint(3, 12))]
        culprits = set(draw.sample(names, draw.choice([0, 1, 1, 1, 2])))
        wrong += answer(names, culprits, chance, draw) != culprits
    assert wrong <= MOST_WRONG
