"""What could be true about the changes: the hypotheses that trials decide between.

Changes and their weights come in; hypotheses with prior probabilities go out. Changes are
opaque here, and a set of them is a bit mask: bit i stands for the i-th change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

HypothesisKind = Literal[
    "alone",  # this one change removes the failure
    "either",  # each of these two, or three, does
    "together",  # these two do, neither of them alone
    "weaker",  # this one makes it rarer and does not remove it
    "none",  # no set of these changes removes it
    "gone",  # it no longer comes at all, whatever is changed
]

# How likely each kind is before anything is known. "None", "together" and "alone" set the price of
# a verdict and how often it is wrong (docs/design/which-trial-next.md).
PRIOR_BY_KIND: dict[HypothesisKind, float] = {
    "alone": 0.46,
    "either": 0.05,
    "together": 0.21,
    "weaker": 0.02,
    "none": 0.25,
    "gone": 0.01,
}
# The same where a diagnosis has named a change: a cause that was recognised has a remedy.
PRIOR_IF_NAMED: dict[HypothesisKind, float] = {
    "alone": 0.67,
    "either": 0.04,
    "together": 0.12,
    "weaker": 0.02,
    "none": 0.14,
    "gone": 0.01,
}
_NAMED = 2.0  # this many times as likely as the least likely one counts as named
# Nobody knows how often two changes are needed together: a pair is the answer only if it would be,
# were pairs so much less likely than above.
TOGETHER_AT_LEAST = 0.5
# How much rarer a "weaker" change makes the failure.
WEAKER_RATE = 0.5
# Three that each suffice (two other miners, and no workers) are thought of among few changes only:
# among 16 there are 560 such sets, and each costs the planner time.
MOST_FOR_THREES = 10
_SHARE_OF_THREES = 0.2  # of "either"


@dataclass(frozen=True)
class Hypothesis:
    kind: HypothesisKind
    mask: int
    prior: float

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The changes that it names, by number."""
        return members_of(self.mask)

    def rate(self, applied: int) -> float:
        """The failure's rate under these changes, as a share of the rate without any."""
        if self.kind == "none":
            return 1.0
        if self.kind == "gone":
            return 0.0
        if self.kind == "together":
            return 0.0 if applied & self.mask == self.mask else 1.0
        if not applied & self.mask:
            return 1.0
        return WEAKER_RATE if self.kind == "weaker" else 0.0


def build_hypotheses(
    changes: Sequence[str],
    weights: Mapping[str, float] | None = None,
    max_pairs: int = 500,
    exclusive: Sequence[int] = (),
) -> list[Hypothesis]:
    """Every hypothesis on these changes; pairs up to `max_pairs`, the likeliest first.

    `weights` says how likely each change is to be the one, in any scale; a change that is
    not named gets the smallest weight that is. Without weights all are alike, and it is likelier
    that none of them is the one. Changes of one mask of `exclusive` are values of one thing, and
    cannot be needed together.
    """
    shares = _shares(changes, weights or {})
    pairs = sorted(
        itertools.combinations(range(len(changes)), 2),
        key=lambda pair: -(shares[pair[0]] + shares[pair[1]]),
    )[:max_pairs]
    compatible = [p for p in pairs if not any(_has_both(m, *p) for m in exclusive)]
    threes = list(itertools.combinations(range(len(changes)), 3))
    if len(changes) > MOST_FOR_THREES:
        threes = []
    prior = PRIOR_IF_NAMED if max(shares) >= _NAMED * min(shares) else PRIOR_BY_KIND
    found: list[Hypothesis] = []

    def add(kind: HypothesisKind, mask: int, share: float) -> None:
        found.append(Hypothesis(kind, mask, prior[kind] * share))

    for i, share in enumerate(shares):
        add("alone", 1 << i, share)
        add("weaker", 1 << i, share)
    kinds: list[tuple[HypothesisKind, Sequence[tuple[int, ...]], float]] = [
        ("either", pairs, 1.0 - _SHARE_OF_THREES if threes else 1.0),
        ("either", threes, _SHARE_OF_THREES),
        ("together", compatible, 1.0),
    ]
    for kind, sets, part in kinds:
        total = math.fsum(shares[i] for members in sets for i in members)
        for members in sets:
            mask = sum(1 << i for i in members)
            add(kind, mask, part * math.fsum(shares[i] for i in members) / total)
    add("none", 0, 1.0)
    add("gone", 0, 1.0)
    mass = math.fsum(hypothesis.prior for hypothesis in found)
    return [Hypothesis(h.kind, h.mask, h.prior / mass) for h in found]


def members_of(mask: int) -> tuple[int, ...]:
    """The changes of a set, by number."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def _has_both(mask: int, a: int, b: int) -> bool:
    return bool(mask >> a & mask >> b & 1)


def _shares(changes: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    if not changes:
        raise ValueError("an investigation needs at least one change to try")
    if len(set(changes)) < len(changes):
        raise ValueError("a change is named twice")
    unknown = set(weights) - set(changes)
    if unknown:
        raise ValueError(f"weights for changes that are not tried: {sorted(unknown)}")
    if any(not (weight >= 0.0 and math.isfinite(weight)) for weight in weights.values()):
        raise ValueError("a weight is a finite number from zero up")
    named = [weight for weight in weights.values() if weight > 0.0]
    least = min(named, default=1.0)
    # A weight of zero is an opinion, not a proof: every change keeps a small share.
    raw = [max(weights.get(change, least), 0.02 * max(named, default=1.0)) for change in changes]
    total = math.fsum(raw)
    return [weight / total for weight in raw]
