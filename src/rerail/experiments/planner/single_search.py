"""Which one of many changes is it? The search while one alone may remove the failure.

The posterior comes in; the next trial goes out, or None where this is not the question or not yet:
the failure comes at a fixed step, one change alone is unlikely, starting a run is dear, or more
crashes have to be seen before a clean stretch is worth what it costs. Then `planner` weighs.

A crash ends every change of its set, a clean stretch speaks for all of them. A set that holds the
change with chance q teaches -(1 - q) ln(1 - q) nats per mean time to failure, most at q = 0.63,
and little less around it. So the likeliest changes that make up that share are run, and chosen
again after a third of a mean; what stays is run alone. One crash of everything but it is sought
where none has come yet, or where it is cheaper than a clean stretch against the other changes,
which is so while few crashes are known (docs/design/which-trial-next.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rerail.experiments.planner.planner import Choice
from rerail.experiments.planner.posterior import Posterior
from rerail.experiments.planner.verdict import Standing, stand

SHARE = 0.6  # of what one change may be, in a set
LENGTH_MEANS = 0.3
_LIKELY_ENOUGH = 0.25  # that one change alone removes it
_NEVER_ALL = 0.93  # a set with more than this share tells no changes apart
_DEAR_START_MEANS = 0.1
_LONGEST_ALONE_MEANS = 3.0
_ALL_BUT_PROVEN_MEANS = 0.3
_CRASH_MEANS = 3.2  # a crash takes one, and may be sought for the wrong change


def narrow(
    posterior: Posterior,
    count: int,
    confidence: float,
    overhead: float = 0.0,
    exclusive: Sequence[int] = (),
) -> Choice | None:
    """The next trial of the search; the arguments are those of `choose_trial`."""
    if posterior.model.is_at_a_step or not posterior.crashes:
        return None
    standing = stand(posterior, count)
    likely = math.fsum(standing.only)
    mean = posterior.mean_time_to_failure()
    if likely < _LIKELY_ENOUGH or overhead > _DEAR_START_MEANS * mean:
        return None
    order = sorted(range(count), key=lambda i: -standing.only[i])
    best = order[0]
    proof = _Proof(posterior, standing, best, confidence)
    if proof.wants_crashes_first:
        return None
    applied = _likeliest(order, standing.only, SHARE * likely, _NEVER_ALL * likely, exclusive)
    if applied != 1 << best:
        return Choice(applied, LENGTH_MEANS * mean)
    # Without a crash in the trials nothing is confirmed: then it is due in any case.
    is_due = not posterior.crashes_in_trials or proof.saved_by_a_crash > _CRASH_MEANS
    if is_due and proof.against_the_rest < _ALL_BUT_PROVEN_MEANS:
        others = _likeliest(order[1:], standing.only, math.inf, math.inf, exclusive)
        return Choice(others, mean)
    length = proof.against_the_rest - 0.5 * _ALL_BUT_PROVEN_MEANS
    if proof.against_the_rest < _ALL_BUT_PROVEN_MEANS:
        length = _LONGEST_ALONE_MEANS
    return Choice(applied, min(max(length, 0.1), _LONGEST_ALONE_MEANS) * mean)


class _Proof:
    """What a proof of `best` still takes, in mean times to failure."""

    def __init__(
        self, posterior: Posterior, standing: Standing, best: int, confidence: float
    ) -> None:
        removes = standing.removes[best]
        # At risk with it alone, and with all but it; a clean stretch is the only way.
        stays = standing.persists + standing.needed[best]
        others = max(0.0, 1.0 - removes - stays)
        odds = confidence / (1.0 - confidence)
        self._crashes = posterior.crashes
        # If nothing removes it, all that was run was at risk.
        at_risk = max(weighed.at_risk for weighed in posterior.living)
        self._at_risk = at_risk / posterior.mean_time_to_failure()
        self._nats = [math.log(max(1.0, odds * r / removes)) for r in (stays, stays + others)]

    @property
    def against_the_rest(self) -> float:
        return self._stretch(self._nats[0])

    @property
    def saved_by_a_crash(self) -> float:
        """How much shorter the stretch gets by a crash without it."""
        return self._stretch(self._nats[1]) - self.against_the_rest

    @property
    def wants_crashes_first(self) -> bool:
        """Whether one more crash shortens the stretch by more than it costs."""
        return self._stretch(self._nats[1]) - self._stretch(self._nats[1], more=1) > 1.0

    def _stretch(self, nats: float, more: int = 0) -> float:
        """The clean stretch for a likelihood ratio, after so many more crashes."""
        return (self._at_risk + more) * math.expm1(nats / (self._crashes + more))


def _likeliest(
    order: Sequence[int],
    weights: Sequence[float],
    wanted: float,
    most: float,
    exclusive: Sequence[int],
) -> int:
    """The first changes in order, one of each group, whose weights add up to nearly `wanted`."""
    applied, taken = 0, 0.0
    for i in order:
        if any(group >> i & 1 and group & applied for group in exclusive):
            continue
        after = taken + weights[i]
        if applied and (after > most or abs(after - wanted) > abs(taken - wanted)):
            break
        applied, taken = applied | 1 << i, after
    return applied
