"""What the trials say: the probability of every hypothesis, the failure's rate learnt with it.

Hypotheses and trials come in; probabilities go out. Under a hypothesis a trial is either at
risk (the failure comes at its rate) or safe. The rate is unknown and the same in all trials
at risk; integrated out over the scale-free gamma prior, k crashes in an exposure S at risk
leave the likelihood S^-k, so a hypothesis needs one number, its own S. A crash in a trial
that should have been safe ends the hypothesis.

A failure that came at one step every time so far has no rate. It is certain there, or comes
with a chance of its own that nobody knows: the more often it came, the less likely that a pass of
the step without it is luck.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from rerail.investigation.hypotheses import Hypothesis
from rerail.survival import FailureModel, Lifetimes

# How likely a failure that always came at its step is not certain there, before any count: a race
# at start-up that fails half of the runs looks deterministic after two.
_NOT_CERTAIN = 0.1
# With a change applied, what came at step 40 may come at 80 (half the batch) or after twice the
# seconds: a change removes it only if a run went this many times as far, or to its own end.
BEYOND_THE_STEP = 3.0


def log_misses(crashes: float, misses: float) -> float:
    """The likelihood of these crashes at the step and of passes without one, in any order."""
    by_chance = (
        math.lgamma(crashes + 1) + math.lgamma(misses + 1) - math.lgamma(crashes + misses + 2)
    )
    chance = _NOT_CERTAIN * math.exp(by_chance)
    return math.log(chance + (1.0 - _NOT_CERTAIN if misses == 0 else 0.0))


def chance_of_a_miss(crashes: int) -> float:
    """That a first pass of the step goes well although nothing removed the failure."""
    return math.exp(log_misses(crashes, 1) - log_misses(crashes, 0))


@dataclass
class Weighed:
    """A hypothesis that is still possible."""

    hypothesis: Hypothesis
    log_weight: float
    at_risk: float  # exposure at risk under it, on the failure model's clock
    misses: float = 0.0  # fixed step: passes at risk that went well


class Posterior:
    """Starts from `history`: runs without any change, before the first trial."""

    def __init__(
        self, hypotheses: list[Hypothesis], model: FailureModel, history: Lifetimes
    ) -> None:
        self.model = model
        self.crashes = history.crashes
        self.crashes_in_trials = 0
        before = math.fsum(self.counted(time, True) for time in history.crash_times)
        before += math.fsum(self.counted(time, False) for time in history.survivals)
        self.living = [Weighed(h, math.log(h.prior), before) for h in hypotheses]
        # Clean exposure and crashes by the exact set of changes.
        self.clean: defaultdict[int, float] = defaultdict(float)
        self.crashed_under: defaultdict[int, int] = defaultdict(int)
        # The longest clean run of each set; without an end if the command ended by itself.
        self.longest: defaultdict[int, float] = defaultdict(float)
        self._probabilities: list[float] | None = None

    def after(self, applied: int, exposure: float, crashed: bool) -> Posterior:
        """What it would be after one more trial."""
        twin = Posterior.__new__(Posterior)
        twin.model = self.model
        twin.crashes = self.crashes
        twin.crashes_in_trials = self.crashes_in_trials
        twin.living = [
            Weighed(w.hypothesis, w.log_weight, w.at_risk, w.misses) for w in self.living
        ]
        twin.clean = self.clean.copy()
        twin.crashed_under = self.crashed_under.copy()
        twin.longest = self.longest.copy()
        twin._probabilities = None
        twin.observe(applied, exposure, crashed)
        return twin

    def counted(self, exposure: float, crashed: bool) -> float:
        """A trial's exposure on the clock where the rate is constant."""
        counted = self.model.operational_time(exposure)
        if crashed:
            # A crash is never free: off its boundary or before its step it still counts.
            counted = max(counted, min(self.model.period or self.model.step or 0.0, exposure))
        return counted

    def observe(
        self, applied: int, exposure: float, crashed: bool, ended_itself: bool = False
    ) -> None:
        self._probabilities = None
        counted = self.counted(exposure, crashed)
        passed = self.model.is_deterministic and exposure >= self.model.past_the_step
        if crashed:
            self.crashes += 1
            self.crashes_in_trials += 1
            self.crashed_under[applied] += 1
        else:
            self.clean[applied] += counted
            far = math.inf if ended_itself else exposure
            self.longest[applied] = max(self.longest[applied], far)
        kept = []
        for weighed in self.living:
            rate = weighed.hypothesis.rate(applied)
            if rate > 0.0:
                if crashed:
                    weighed.log_weight += math.log(rate)
                elif passed:
                    weighed.misses += rate
                weighed.at_risk += rate * counted
            elif crashed:
                continue
            kept.append(weighed)
        self.living = kept

    def probabilities(self) -> list[float]:
        """Of the living hypotheses, in their order; they add up to one."""
        if self._probabilities is None:
            self._probabilities = self._worked_out()
        return self._probabilities

    def _worked_out(self) -> list[float]:
        shape = self.crashes
        if not shape:
            logs = [w.log_weight for w in self.living]
        elif self.model.is_deterministic:
            known: dict[float, float] = {}
            for weighed in self.living:
                if weighed.misses not in known:
                    known[weighed.misses] = log_misses(shape, weighed.misses)
            logs = [w.log_weight + known[w.misses] for w in self.living]
        else:
            logs = [w.log_weight - shape * math.log(w.at_risk) for w in self.living]
        top = max(logs)
        raw = [math.exp(log - top) for log in logs]
        total = math.fsum(raw)
        return [value / total for value in raw]

    def mean_time_to_failure(self) -> float:
        """On the model's clock, averaged over the hypotheses; infinite without a crash."""
        if not self.crashes:
            return math.inf
        pairs = zip(self.probabilities(), self.living, strict=True)
        return math.fsum(p * weighed.at_risk for p, weighed in pairs) / self.crashes

    def has_gone_far_enough(self, applied: int) -> bool:
        """Whether a fixed step can be said to be gone, and not only to come later."""
        if not self.model.is_deterministic:
            return True
        # A trial is asked to go a little further than this, as clocks differ by tenths of a second.
        return self.longest[applied] >= BEYOND_THE_STEP * self.model.past_the_step

    def crashes_with(self, change: int) -> int:
        """Crashes of trials that had this change, alone or among others."""
        return sum(n for applied, n in self.crashed_under.items() if applied >> change & 1)
