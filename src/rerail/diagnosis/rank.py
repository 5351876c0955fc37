"""From cases to probabilities.

In: cases. Out: (case, probability), the likeliest first; the rest to 1 is "something else".

A cause that leads to another's message explains that message as well as the other does, so its
evidence is counted for both (`outranks` in the catalogue; a residual cause, which is named only
when nothing else explains the ending, is explained by every other). "Something else" competes with
a constant. The result goes through the calibration of `calibration.py`.
"""

from __future__ import annotations

import math

from rerail.diagnosis.calibration import calibrated
from rerail.diagnosis.weigh import ENOUGH, Case

SOMETHING_ELSE = 1.0  # nats
EXPLAINS_SHARE = 0.7  # a cause explains what it outranks if it has this share of its evidence
RESIDUE_SHARE = 0.55  # the same for a residue: next to nothing is still better than no answer
LEAST_SHOWN = 0.01


def rank(cases: dict[str, Case]) -> list[tuple[Case, float]]:
    shares = raw_shares(cases)
    if not shares:
        return []
    order = sorted(shares, key=lambda cause_id: -shares[cause_id])
    leading = cases[order[0]]
    raw = shares[order[0]]
    first = calibrated(raw, leading.own, leading.standing)
    rest = 1.0 - raw
    ranked = [(leading, first)]
    for cause_id in order[1:]:
        # What the leader lost or gained by calibration is the others' gain or loss in proportion.
        share = shares[cause_id] / rest * (1.0 - first) if rest > 0 else 0.0
        ranked.append((cases[cause_id], min(share, first)))
    return [(case, p) for at, (case, p) in enumerate(ranked) if at < 3 or p >= LEAST_SHOWN]


def raw_shares(cases: dict[str, Case]) -> dict[str, float]:
    """Each named cause's share before calibration; what is missing to 1 is "something else"."""
    named = {cause_id: case for cause_id, case in cases.items() if case.own >= ENOUGH}
    totals = {cause_id: _total(case, named) for cause_id, case in named.items()}
    highest = max([*totals.values(), SOMETHING_ELSE])
    shares = {cause_id: math.exp(total - highest) for cause_id, total in totals.items()}
    whole = sum(shares.values()) + math.exp(SOMETHING_ELSE - highest)
    return {cause_id: share / whole for cause_id, share in shares.items()}


def _total(case: Case, named: dict[str, Case]) -> float:
    total = case.cause.prior + case.own
    for other in named.values():
        # A hint does not explain away a definite message. A residue is explained by any word of a
        # cause that is known to lead to it, but a crash not by a hint of something unrelated.
        is_residual = other.cause.is_residual
        share = RESIDUE_SHARE if is_residual else EXPLAINS_SHARE
        is_known_to = is_residual and other.cause.id in case.cause.outranks
        is_enough = is_known_to or case.own >= share * other.own
        if other is not case and is_enough and _explains(case, other):
            total += max(0.0, other.own)
    return total


def _explains(case: Case, other: Case) -> bool:
    if other.cause.id in case.cause.outranks:
        return True
    if case.cause.id in other.cause.outranks:
        return False
    return other.cause.is_residual and not case.cause.is_residual
