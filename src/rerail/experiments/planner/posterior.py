"""What the trials say: the probability of every hypothesis, the failure's rate learnt with it.

Hypotheses and trials come in; probabilities go out. Under a hypothesis a trial is either at
risk (the failure comes at its rate) or safe. The rate is unknown and the same in all trials
at risk; integrated out over the scale-free gamma prior, k crashes in an exposure S at risk
leave the likelihood S^-k, so a hypothesis needs one number, its own S. A crash in a trial
that should have been safe ends the hypothesis.

A failure that always comes at one step has no rate: its passes of the step count instead
(`survival.passes`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from rerail.experiments.planner.hypotheses import Hypothesis
from rerail.survival import FailureModel, Lifetimes, log_likelihood

# With a change applied, what came at step 40 may come at 80 (half the batch) or after twice the
# seconds: a change removes it only if a run went this many times as far, or to its own end.
BEYOND_THE_STEP = 3.0


@dataclass(frozen=True)
class Moved:
    """Trials that begin at a checkpoint count from there, but a change of the batch size may move
    the place of the failure by its distance from the very beginning."""

    skipped: float = 0.0  # what lies before the checkpoint
    by: int = 0  # changes that may do so


NOT_MOVED = Moved()
# This much of a pass counts before the first, where a failure at one place is doubted.
_DOUBT = 0.5


@dataclass
class Weighed:
    """A hypothesis that is still possible."""

    hypothesis: Hypothesis
    log_weight: float
    at_risk: float  # exposure at risk under it, on the failure model's clock
    misses: float = 0.0  # fixed step: passes at risk that went well


class Posterior:
    """Starts from `history`: runs without any change, before the first trial.

    `moved` says what changes may do to the place of a failure at a fixed step. `is_doubted`: such a
    failure is never certain there, and its chance is of any order of magnitude. Otherwise one that
    always came is rather certain, and any chance is alike, which is too sure of rare ones.
    """

    def __init__(
        self,
        hypotheses: list[Hypothesis],
        model: FailureModel,
        history: Lifetimes,
        moved: Moved = NOT_MOVED,
        is_doubted: bool = False,
    ) -> None:
        self.model = model
        self.moved = moved
        self.is_doubted = is_doubted
        self.crashes = history.crashes
        self.crashes_in_trials = 0
        before = math.fsum(self._counted(time, True, False) for time in history.crash_times)
        missed = _DOUBT if is_doubted else 0.0
        for time in history.survivals:
            passed = self._is_a_pass(0, time)
            before += self._counted(time, False, passed)
            missed += passed
        self.living = [Weighed(h, math.log(h.prior), before, missed) for h in hypotheses]
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
        twin.moved = self.moved
        twin.is_doubted = self.is_doubted
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

    def _counted(self, exposure: float, crashed: bool, passed: bool) -> float:
        """A trial's exposure on the clock where the rate is constant."""
        if passed:
            return self.model.step or 0.0
        counted = self.model.operational_time(exposure)
        if crashed:
            # A crash is never free: off its boundary or before its step it still counts.
            counted = max(counted, min(self.model.period or self.model.step or 0.0, exposure))
        return counted

    def _is_a_pass(self, applied: int, exposure: float, ended_itself: bool = False) -> bool:
        """Whether a clean run came past the step, if the failure comes at one.

        A run that came to its own end did, however short it was: with a change that halves the
        steps, or where a faster program is measured in seconds. Without any change it need not be
        clear of the step: there, to count it is the careful side.
        """
        model = self.model
        if not model.is_at_a_step:
            return False
        far = model.clear_of_the_step if applied else model.past_the_step
        return ended_itself or exposure >= far

    def observe(
        self, applied: int, exposure: float, crashed: bool, ended_itself: bool = False
    ) -> float:
        """Take note of a trial; gives what it counted for, on the model's clock."""
        self._probabilities = None
        passed = not crashed and self._is_a_pass(applied, exposure, ended_itself)
        counted = self._counted(exposure, crashed, passed)
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
        return counted

    def probabilities(self) -> list[float]:
        """Of the living hypotheses, in their order; they add up to one."""
        if self._probabilities is None:
            self._probabilities = self._worked_out()
        return self._probabilities

    def _worked_out(self) -> list[float]:
        shape = self.crashes
        if not shape:
            logs = [w.log_weight for w in self.living]
        elif self.model.is_at_a_step:
            known: dict[float, float] = {}
            for weighed in self.living:
                if weighed.misses not in known:
                    known[weighed.misses] = log_likelihood(self.counted_crashes, weighed.misses)
            logs = [w.log_weight + known[w.misses] for w in self.living]
        else:
            logs = [w.log_weight - shape * math.log(w.at_risk) for w in self.living]
        top = max(logs)
        raw = [math.exp(log - top) for log in logs]
        total = math.fsum(raw)
        return [value / total for value in raw]

    @property
    def counted_crashes(self) -> int:
        """At a fixed step. The first says that there is a chance, and nothing of its size: that
        is what a prior alike in every order of magnitude comes to."""
        return self.crashes - (self.is_doubted and self.crashes > 0)

    def mean_time_to_failure(self) -> float:
        """On the model's clock, averaged over the hypotheses; infinite without a crash."""
        if not self.crashes:
            return math.inf
        pairs = zip(self.probabilities(), self.living, strict=True)
        return math.fsum(p * weighed.at_risk for p, weighed in pairs) / self.crashes

    def has_gone_far_enough(self, applied: int) -> bool:
        """Whether a fixed step can be said to be gone, and not only to come later."""
        if not self.model.is_at_a_step:
            return True
        # A trial is asked to go a little further than this, as clocks differ by tenths of a second.
        return self.longest[applied] >= self.far_beyond(applied)

    def far_beyond(self, applied: int) -> float:
        """How far a run has to come before a fixed step is gone, and does not only come later."""
        before = self.moved.skipped if applied & self.moved.by else 0.0
        return BEYOND_THE_STEP * (before + self.model.past_the_step) - before

    def crashes_with(self, change: int) -> int:
        """Crashes of trials that had this change, alone or among others."""
        return sum(n for applied, n in self.crashed_under.items() if applied >> change & 1)
