"""What has been proven? The posterior comes in; the answer and its evidence go out.

A verdict is never better than its evidence. A change, or a pair, is `confirmed` only if it
removes the failure with the confidence asked, was clean in trials of its own with nothing
else applied, and the failure was seen without it, in the trials and not only before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.experiments.planner.hypotheses import TOGETHER_AT_LEAST
from rerail.experiments.planner.posterior import Posterior
from rerail.wording import percent

Status = Literal["confirmed", "none-of-these", "not-reproduced", "inconclusive"]


@dataclass(frozen=True)
class RuledOut:
    change: str
    evidence: str


@dataclass(frozen=True)
class Likely:
    """One line of the ranking: what may be true, in words, and how likely it is."""

    text: str
    changes: tuple[str, ...]
    probability: float


@dataclass(frozen=True)
class Verdict:
    status: Status
    changes: tuple[str, ...] = ()
    confidence: float = 0.0
    alternatives: tuple[tuple[str, ...], ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    reason: str = ""
    ranking: tuple[Likely, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.status != "inconclusive"


@dataclass(frozen=True)
class Standing:
    """The posterior summed up by answer."""

    removes: list[float]  # by change: that it removes the failure alone
    only: list[float]  # by change: that it and no other does
    needed: list[float]  # by change: that it is needed together with another
    pair: int  # the likeliest pair that is needed together, as a mask
    pair_chance: float
    persists: float  # that nothing here removes it
    gone: float  # that it no longer comes
    together: float  # that any two are needed together

    @property
    def pair_at_least(self) -> float:
        """The chance of the likeliest pair, were pairs only as likely as they are at least."""
        chance = TOGETHER_AT_LEAST * self.pair_chance
        return chance / (1.0 - (1.0 - TOGETHER_AT_LEAST) * self.together)


def stand(posterior: Posterior, count: int) -> Standing:
    removes, only, needed = ([0.0] * count for _ in range(3))
    pair, pair_chance, persists, gone, together = 0, 0.0, 0.0, 0.0, 0.0
    for chance, weighed in zip(posterior.probabilities(), posterior.living, strict=True):
        kind, mask = weighed.hypothesis.kind, weighed.hypothesis.mask
        if kind in ("alone", "either"):
            for i in weighed.hypothesis.members:
                removes[i] += chance
                if kind == "alone":
                    only[i] += chance
        elif kind == "together":
            together += chance
            for i in weighed.hypothesis.members:
                needed[i] += chance
            if chance > pair_chance:
                pair, pair_chance = mask, chance
        elif kind == "gone":
            gone += chance
        else:
            persists += chance
    return Standing(removes, only, needed, pair, pair_chance, persists, gone, together)


def decide(posterior: Posterior, count: int, confidence: float) -> tuple[Status, int, float]:
    """The status, the set that it is about, and how sure it is."""
    standing = stand(posterior, count)
    best = max(range(count), key=standing.removes.__getitem__)
    sure = standing.removes[best]
    if sure >= confidence and _was_clean_on_its_own(posterior, 1 << best):
        return "confirmed", 1 << best, sure
    if standing.pair_at_least >= confidence and _was_clean_on_its_own(posterior, standing.pair):
        return "confirmed", standing.pair, standing.pair_at_least
    if standing.persists >= confidence and posterior.crashes_in_trials:
        return "none-of-these", 0, standing.persists
    if standing.gone >= confidence or not posterior.crashes:
        return "not-reproduced", 0, standing.gone
    return "inconclusive", 1 << best, sure


def _was_clean_on_its_own(posterior: Posterior, mask: int) -> bool:
    """Survived about a mean time to failure with exactly this set, and failed without it."""
    if not posterior.crashes_in_trials or not posterior.has_gone_far_enough(mask):
        return False
    return posterior.clean[mask] >= 0.999 * posterior.mean_time_to_failure()


def leading_set(posterior: Posterior, count: int, confidence: float) -> int | None:
    """The set that the posterior is sure of, whether or not its own trials suffice yet."""
    standing = stand(posterior, count)
    best = max(range(count), key=standing.removes.__getitem__)
    if standing.removes[best] >= confidence:
        return 1 << best
    return standing.pair if standing.pair_at_least >= confidence else None


def names_of(mask: int, changes: Sequence[str]) -> tuple[str, ...]:
    return tuple(change for i, change in enumerate(changes) if mask >> i & 1)


def give_verdict(posterior: Posterior, changes: Sequence[str], confidence: float) -> Verdict:
    count = len(changes)
    status, mask, sure = decide(posterior, count, confidence)
    confirmed = mask if status == "confirmed" else 0
    standing = stand(posterior, count)
    alternatives = tuple(
        (change,)
        for i, change in enumerate(changes)
        if confirmed.bit_count() == 1
        and not confirmed >> i & 1
        and standing.removes[i] >= confidence
        and _was_clean_on_its_own(posterior, 1 << i)
    )
    return Verdict(
        status=status,
        changes=names_of(confirmed, changes),
        confidence=sure,
        alternatives=alternatives,
        ruled_out=_ruled_out(posterior, changes, confirmed),
        reason=_reason(posterior, status, names_of(confirmed, changes), sure),
        ranking=rank(posterior, changes),
    )


def _ruled_out(
    posterior: Posterior, changes: Sequence[str], confirmed: int
) -> tuple[RuledOut, ...]:
    """Changes that do not remove the failure alone, each with the crash that says so."""
    found = []
    for i, change in enumerate(changes):
        if confirmed >> i & 1:
            continue
        alone = posterior.crashed_under.get(1 << i, 0)
        crashes = posterior.crashes_with(i)
        if alone:
            evidence = f"failed {alone} time{'s' * (alone > 1)} with it alone"
        elif crashes:
            evidence = f"failed {crashes} time{'s' * (crashes > 1)} with it among others"
        else:
            continue
        found.append(RuledOut(change, evidence))
    return tuple(found)


def rank(posterior: Posterior, changes: Sequence[str], limit: int = 10) -> tuple[Likely, ...]:
    """What may be true, the likeliest first."""
    words = {
        "alone": "{0} alone removes it",
        "either": "{any} removes it, either is enough",
        "together": "{0} and {1} remove it together",
        "weaker": "{0} makes it rarer, nothing here removes it",
        "none": "nothing here removes it",
        "gone": "it no longer comes",
    }
    lines = [
        Likely(words[w.hypothesis.kind].format(*names, any=" or ".join(names)), names, chance)
        for chance, w in zip(posterior.probabilities(), posterior.living, strict=True)
        for names in [names_of(w.hypothesis.mask, changes)]
    ]
    lines.sort(key=lambda line: -line.probability)
    return tuple(lines[:limit])


def _reason(posterior: Posterior, status: Status, names: tuple[str, ...], sure: float) -> str:
    crashes = posterior.crashes_in_trials
    seen = f"{crashes} crash{'es' * (crashes != 1)}"
    chance = percent(sure, 1)
    if status == "confirmed":
        return f"with {' and '.join(names)} the failure is gone; {seen} without ({chance})"
    if status == "none-of-these":
        return f"it fails whatever is changed: {seen} ({chance})"
    if status == "not-reproduced":
        return "the failure did not come back, so nothing about it can be shown"
    return f"not decided: {seen} so far"
