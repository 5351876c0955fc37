"""What the trials say: the probability of every hypothesis, the failure's rate learnt with it.

Hypotheses and trials come in; probabilities go out. Under a hypothesis a trial is either at
risk (the failure comes at its rate) or safe. The rate is unknown and the same in all trials
at risk; integrated out over the scale-free gamma prior, k crashes in an exposure S at risk
leave the likelihood S^-k, so a hypothesis needs one number, its own S. A crash in a trial
that should have been safe ends the hypothesis.

A failure that comes at a fixed step every time has no rate: a pass of the step that should
have failed and did not has the likelihood `MISSED_STEP`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from rerail.investigation.hypotheses import Hypothesis
from rerail.survival import FailureModel, Lifetimes

# A deterministic failure that does not come back at its step although nothing removed it.
MISSED_STEP = 0.001


@dataclass
class Weighed:
    """A hypothesis that is still possible."""

    hypothesis: Hypothesis
    log_weight: float
    at_risk: float  # exposure at risk under it, on the failure model's clock


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

    def after(self, applied: int, exposure: float, crashed: bool) -> Posterior:
        """What it would be after one more trial."""
        twin = Posterior.__new__(Posterior)
        twin.model = self.model
        twin.crashes = self.crashes
        twin.crashes_in_trials = self.crashes_in_trials
        twin.living = [Weighed(w.hypothesis, w.log_weight, w.at_risk) for w in self.living]
        twin.clean = self.clean.copy()
        twin.crashed_under = self.crashed_under.copy()
        twin.observe(applied, exposure, crashed)
        return twin

    def counted(self, exposure: float, crashed: bool) -> float:
        """A trial's exposure on the clock where the rate is constant."""
        counted = self.model.operational_time(exposure)
        if crashed:
            # A crash is never free: off its boundary or before its step it still counts.
            counted = max(counted, min(self.model.period or self.model.step or 0.0, exposure))
        return counted

    def observe(self, applied: int, exposure: float, crashed: bool) -> None:
        counted = self.counted(exposure, crashed)
        passed = self.model.is_deterministic and exposure >= self.model.past_the_step
        if crashed:
            self.crashes += 1
            self.crashes_in_trials += 1
            self.crashed_under[applied] += 1
        else:
            self.clean[applied] += counted
        kept = []
        for weighed in self.living:
            rate = weighed.hypothesis.rate(applied)
            if rate > 0.0:
                if crashed:
                    weighed.log_weight += math.log(rate)
                elif passed:
                    weighed.log_weight += rate * math.log(MISSED_STEP)
                weighed.at_risk += rate * counted
            elif crashed:
                continue
            kept.append(weighed)
        self.living = kept

    def probabilities(self) -> list[float]:
        """Of the living hypotheses, in their order; they add up to one."""
        shape = 0 if self.model.is_deterministic else self.crashes
        if shape:
            logs = [w.log_weight - shape * math.log(w.at_risk) for w in self.living]
        else:
            logs = [w.log_weight for w in self.living]
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

    def crashes_with(self, change: int) -> int:
        """Crashes of trials that had this change, alone or among others."""
        return sum(n for applied, n in self.crashed_under.items() if applied >> change & 1)
