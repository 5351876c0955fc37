"""What is a clean pass worth, where the failure always comes at one place?

A failure that came at one step every time has no rate. It is certain there, or comes with a chance
of its own that nobody knows: a race at start-up that fails half of the runs looks deterministic
after two. Crashes at the place and passes of it without one come in; likelihoods go out. The more
often it came, the less likely that a pass is luck; and once one pass went well with nothing
changed, it is not certain, and every further pass says less.
"""

from __future__ import annotations

import math

# How likely a failure that always came at its step is not certain there, before any count.
NOT_CERTAIN = 0.35


def log_likelihood(crashes: float, misses: float) -> float:
    """Of so many crashes at the place and passes without one, in any one order.

    A chance that nobody knows is any chance alike, integrated out.
    """
    by_chance = (
        math.lgamma(crashes + 1) + math.lgamma(misses + 1) - math.lgamma(crashes + misses + 2)
    )
    if misses > 0:
        return math.log(NOT_CERTAIN) + by_chance
    return math.log(NOT_CERTAIN * math.exp(by_chance) + 1.0 - NOT_CERTAIN)


def chance_of_misses(crashes: float, missed: float = 0.0, more: float = 1.0) -> float:
    """That the next passes go well although nothing removed the failure."""
    return math.exp(log_likelihood(crashes, missed + more) - log_likelihood(crashes, missed))


def passes_for(nats: float, crashes: int, missed: float) -> float:
    """About how many clean passes make luck less likely by this much: enough, and rarely too many.

    The first tells certainty from chance. From there on the likelihood of n more falls at least as
    ((m + c) / (m + c + n))^(k + 1), where c = 1 + k / 2, and not much faster.
    """
    first = 0.0
    if missed == 0.0:
        nats += math.log(chance_of_misses(crashes))
        first = missed = 1.0
    if nats <= 0.0:
        return first
    return first + (missed + 1.0 + 0.5 * crashes) * math.expm1(nats / (crashes + 1))
