"""Which commit brought a failure that comes at random? A planner of trials of commits.

In: commits in order, the last of which fails, and what came of trials of some of them. Out: the
commit to run next and for how long, and the probability of each to be the first that fails.

A crash of a commit says for certain that it, and all after it, have the failure. A clean run says
as much as it is worth: the rate is unknown and integrated out as for any other change
(`planner/posterior.py`), so a clean run of a tenth of the mean time counts for little and is not
taken for "good" as `git bisect run` would take it. The next trial is the one that is expected to
tell most for what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rerail.experiments.planner.hypotheses import Hypothesis
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Plan
from rerail.experiments.planner.posterior import Posterior
from rerail.experiments.planner.verdict import Likely, RuledOut, Status, Verdict
from rerail.survival import FailureModel, chance_of_misses
from rerail.wording import percent

# That the failure is older than the commit that was said to be good: a random one is easily missed.
_OLDER = 0.08
_GONE = 0.01
_LENGTHS = (0.3, 1.0, 2.5)  # of a trial, in mean times to failure
_SHARES = (0.3, 0.5, 0.7)  # of the probability: commits that are weighed for the next trial
_FEW_CRASHES = 6


@dataclass(frozen=True)
class FirstBad(Hypothesis):
    """The commit `mask` steps before the newest is the first that has the failure."""

    def rate(self, applied: int) -> float:
        """`applied`: how many steps before the newest the commit is that runs."""
        return 1.0 if self.kind == "alone" and applied <= self.mask else 0.0


class CommitSearch(Investigation):
    """`changes` are revisions, oldest (said to be good) first; without a change runs the newest.

    `untestable` are revisions that cannot be run: what is only told apart by them stays together.
    """

    def __init__(
        self,
        changes: Sequence[str],
        confidence: float = 0.99,
        failure_model: FailureModel | None = None,
        untestable: Collection[str] = (),
    ) -> None:
        self._untestable = frozenset(untestable)
        super().__init__(changes, confidence=confidence, failure_model=failure_model)
        count = len(self.changes)
        self._testable = [0] + [
            back for back in range(1, count + 1) if self._names(back)[0] not in self._untestable
        ]
        # First bad at b or at b + 1 is told by running b + 1.
        self._group_of: list[int] = []
        for back in range(count + 1):
            begins = not back or back in self._testable
            self._group_of.append(back if begins else self._group_of[-1])

    def _what_may_be_true(self) -> list[Hypothesis]:
        count = len(self.changes)
        each = (1.0 - _OLDER - _GONE) / count
        found: list[Hypothesis] = [FirstBad("alone", back, each) for back in range(count)]
        return [*found, FirstBad("alone", count, _OLDER), FirstBad("gone", 0, _GONE)]

    def _names(self, applied: int) -> tuple[str, ...]:
        return (self.changes[len(self.changes) - applied],) if applied else ()

    def _mask(self, changes: Iterable[str]) -> int:
        names = list(changes)
        if len(names) > 1:
            raise ValueError(f"a trial runs one commit, not {names}")
        return len(self.changes) - self.changes.index(names[0]) if names else 0

    # Trials

    def next_trial(
        self,
        budget: float | None = None,
        running: Iterable[Plan] = (),
        seek_alternatives: bool = False,
    ) -> Plan | None:
        if budget is not None and budget <= 0.0:
            return None
        posterior = self._posterior
        for plan in running:
            posterior = self._imagine(posterior, plan)
        if not posterior.crashes:
            plan = self._plan(0, math.inf, "to see the failure in the newest commit", budget)
        elif self._needs_repeat(posterior):
            length = 3.0 * posterior.mean_time_to_failure()
            plan = self._plan(0, length, "whether it fails at the same place again", budget)
        elif self._decide(posterior)[0] != "inconclusive":
            return None
        elif (parent := self._to_be_sure_of(posterior)) is not None:
            plan = self._far_beyond(parent, budget)
        else:
            back, counted = self._most_telling(posterior)
            before = math.fsum(chance for at, chance in self._chances(posterior) if at >= back)
            why = f"whether it is there already: {percent(before)} speak for it"
            plan = self._plan(back, counted, why, budget)
        self._last_plan = plan
        return plan

    def _most_telling(self, posterior: Posterior) -> tuple[int, float]:
        """The commit and length with the most expected information for its cost."""
        model = posterior.model
        at_step = model.is_at_a_step
        mean = posterior.mean_time_to_failure()
        longest = model.operational_time(self.run_length or 0.0) or math.inf
        lengths = [model.step or 1.0] if at_step else [min(x * mean, longest) for x in _LENGTHS]
        overhead = 0.0 if at_step else model.operational_time(self.overhead)
        now = self._entropy(posterior)
        best, best_worth = (0, lengths[-1]), -math.inf
        for back in self._worth_weighing(posterior):
            for counted in lengths:
                crash = self._crash_chance(posterior, back, counted)
                exposure = model.exposure_for(counted)
                told = now - (1.0 - crash) * self._entropy(posterior.after(back, exposure, False))
                if crash > 0.0:
                    died_at = exposure if at_step else min(exposure, 0.5 * (counted + mean))
                    told -= crash * self._entropy(posterior.after(back, died_at, True))
                cost = overhead + counted * (1.0 - (0.0 if at_step else 0.5 * crash))
                if told / cost > best_worth:
                    best, best_worth = (back, counted), told / cost
        # With few crashes the rate is hardly known, and no clean stretch is worth much: one more
        # crash, of the commit that surely has the failure, is worth more than going on.
        surely_at_risk = min((w.at_risk for w in posterior.living if w.at_risk), default=mean)
        enough = 2.0 * surely_at_risk / posterior.crashes
        if posterior.crashes < _FEW_CRASHES and posterior.clean[best[0]] >= enough:
            return 0, lengths[-1]
        return best

    def _worth_weighing(self, posterior: Posterior) -> list[int]:
        """Commits that part the probability, and those beside the likeliest answer."""
        chances = sorted(self._chances(posterior), reverse=True)  # the oldest first
        found, total, left = set(), 0.0, list(_SHARES)
        for group, chance in chances:
            total += chance
            while left and total >= left[0] and group >= 0:
                found.add(group)
                left.pop(0)
        likeliest = max(chances, key=lambda pair: pair[1])[0]
        if likeliest >= 0:
            found |= {likeliest, min(self._members(likeliest)[-1] + 1, len(self.changes))}
        return sorted(found & set(self._testable)) or [0]

    def _before_trials(self, model: FailureModel) -> Posterior:
        # A search makes many passes, and one wrong "good" leads it to another commit.
        history = self._given.lifetimes
        return Posterior(self._hypotheses, model, history, self._moved, is_doubted=True)

    def _crash_chance(self, posterior: Posterior, back: int, counted: float) -> float:
        total, crashes = 0.0, posterior.crashes
        for p, weighed in zip(posterior.probabilities(), posterior.living, strict=True):
            if not weighed.hypothesis.rate(back):
                continue
            if posterior.model.is_at_a_step:
                luck = chance_of_misses(posterior.counted_crashes, weighed.misses)
            else:
                luck = math.exp(-crashes * math.log1p(counted / weighed.at_risk))
            total += p * (1.0 - luck)
        return total

    def _entropy(self, posterior: Posterior) -> float:
        return -math.fsum(p * math.log(p) for _, p in self._chances(posterior) if p > 0.0)

    # Answers

    def _chances(self, posterior: Posterior) -> list[tuple[int, float]]:
        """By group of commits that trials can tell apart: steps before the newest, probability.

        -1 stands for a failure that no longer comes.
        """
        sums: dict[int, float] = {}
        for p, weighed in zip(posterior.probabilities(), posterior.living, strict=True):
            hypothesis = weighed.hypothesis
            at = self._group_of[hypothesis.mask] if hypothesis.kind == "alone" else -1
            sums[at] = sums.get(at, 0.0) + p
        return list(sums.items())

    def _members(self, group: int) -> list[int]:
        """Steps before the newest of the commits in a group, the newest first."""
        return [back for back, at in enumerate(self._group_of) if at == group]

    def _decide(self, posterior: Posterior) -> tuple[Status, int, float]:
        group, sure = max(self._chances(posterior), key=lambda pair: pair[1])
        if group < 0 or not posterior.crashes:
            is_sure = sure >= self.confidence or not posterior.crashes
            return ("not-reproduced" if is_sure else "inconclusive"), group, sure
        if sure < self.confidence or not posterior.crashes_in_trials:
            return "inconclusive", group, sure
        oldest = self._members(group)[-1]
        if oldest == len(self.changes):
            return "none-of-these", group, sure
        if not posterior.has_gone_far_enough(oldest + 1):
            return "inconclusive", group, sure
        return "confirmed", group, sure

    def _to_be_sure_of(self, posterior: Posterior) -> int | None:
        """The commit before the first bad one, if it only has to run further."""
        group, sure = max(self._chances(posterior), key=lambda pair: pair[1])
        if group < 0 or sure < self.confidence or not posterior.crashes_in_trials:
            return None
        oldest = self._members(group)[-1]
        return oldest + 1 if oldest < len(self.changes) else None

    def _decides(self, posterior: Posterior) -> bool:
        return self._decide(posterior)[0] != "inconclusive"

    def first_bad(self) -> list[int]:
        """Steps before the newest of the commit that is the answer, or of several that are alike.

        Empty while there is none.
        """
        status, group, _ = self._decide(self._posterior)
        return self._members(group) if status == "confirmed" else []

    def verdict(self) -> Verdict:
        posterior = self._posterior
        status, _, sure = self._decide(posterior)
        crashes = posterior.crashes_in_trials
        seen = f"{crashes} crash{'es' * (crashes != 1)} in {len(self.trials)} trials"
        members = self.first_bad()
        shown = f"({percent(sure, 1)}; {seen})"
        reasons = {
            "confirmed": f"the commit before it is clean {shown}",
            "none-of-these": f"the commit that was said to be good fails too {shown}",
            "not-reproduced": "the failure did not come back, so nothing about it can be shown",
            "inconclusive": f"not decided: {seen} so far",
        }
        return Verdict(
            status=status,
            changes=self._names(members[-1] + 1) if members else (),
            confidence=sure,
            ruled_out=tuple(
                RuledOut(self._names(back)[0], f"failed {n} time{'s' * (n > 1)}")
                for back, n in posterior.crashed_under.items()
                if back
            ),
            reason=reasons[status],
            ranking=tuple(self.posterior()),
        )

    def posterior(self, limit: int = 10) -> list[Likely]:
        lines = []
        for group, chance in self._chances(self._posterior):
            if group < 0:
                lines.append(Likely("it no longer comes", (), chance))
                continue
            members = self._members(group)
            if members[-1] == len(self.changes):
                lines.append(Likely(f"it is older than {self.changes[0]}", (), chance))
                continue
            names = tuple(self._names(back)[0] if back else "the newest" for back in members)
            lines.append(Likely(f"{' or '.join(names)} is the first with it", names, chance))
        return sorted(lines, key=lambda line: -line.probability)[:limit]
