"""An investigation: asks for trials one by one, takes what came of them, and says what is proven.

    investigation = Investigation(["--workers 0", "--accum 4"], failure_model=classify([117, 927]))
    while plan := investigation.next_trial():
        ...run the command with plan.changes for at most plan.exposure_limit...
        investigation.record(TrialResult.of(plan.changes, exposure, "crashed"))
    investigation.verdict()

Pure: it starts no process, knows no clock, and two investigations that were told the same
ask for the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rerail.experiments.planner.hypotheses import Hypothesis, build_hypotheses
from rerail.experiments.planner.joint import UnderWay, choose_beside
from rerail.experiments.planner.observation import Plan, TrialResult
from rerail.experiments.planner.planner import Choice, choose_trial
from rerail.experiments.planner.posterior import Moved, Posterior
from rerail.experiments.planner.single_search import narrow
from rerail.experiments.planner.verdict import (
    Likely,
    Verdict,
    decide,
    give_verdict,
    leading_set,
    names_of,
    rank,
    stand,
)
from rerail.survival import FailureModel, Lifetimes, classify, constant_rate


@dataclass(frozen=True)
class Stakes:
    """What a trial with some changes would mean. A crash rules out that they remove the failure."""

    now: float  # that the failure is gone with these changes
    if_clean: float  # the same after a clean trial
    clean_until: float  # how far that is
    leading_if_crashed: Likely | None  # what would then be likeliest


# Where nothing is known of the rate, a first trial without changes may take this long.
_FIRST_TRIAL = math.inf
# After a single crash the unchanged command is run once more, up to so many times that crash.
_REPEAT_MEANS = 3.0
# Another kind of failure than a constant rate is believed at this level only.
_PATTERN_LEVEL = 0.01


class Investigation:
    """Which of `changes` removes the failure?

    `priors` are weights from the diagnosis, in any scale. `failure_model` is what earlier
    runs without changes showed, with their crash times and survivals. `run_length` is the
    exposure after which the command ends by itself, `overhead` what starting a trial costs,
    both in the unit of exposure. `exclusive` names changes that are values of one thing: no
    trial has two of a group. `skipped` is what lies before the checkpoint that trials begin at,
    and `moving` names the changes that may move a failure by that too.
    """

    def __init__(
        self,
        changes: Sequence[str],
        priors: Mapping[str, float] | None = None,
        confidence: float = 0.99,
        failure_model: FailureModel | None = None,
        max_pairs: int = 500,
        run_length: float | None = None,
        overhead: float = 0.0,
        periods: Mapping[str, float] | None = None,
        exclusive: Sequence[Sequence[str]] = (),
        skipped: float = 0.0,
        moving: Sequence[str] = (),
    ) -> None:
        if not 0.5 < confidence < 1.0:
            raise ValueError(f"a confidence lies between 0.5 and 1, not {confidence}")
        if run_length is not None and not run_length > 0.0:
            raise ValueError(f"a run's length is above zero, not {run_length}")
        self.changes = tuple(changes)
        self.priors = dict(priors or {})
        self.confidence = confidence
        self.max_pairs = max_pairs
        self.run_length = self._ends_at = run_length
        self.overhead = overhead
        self.periods = dict(periods or {})
        self.trials: list[TrialResult] = []
        self._bit = {change: 1 << i for i, change in enumerate(self.changes)}
        self.exclusive = [list(group) for group in exclusive]
        self._exclusive = [self._mask(group) for group in self.exclusive]
        self.skipped = skipped
        self.moving = list(moving)
        self._moved = Moved(skipped, self._mask(self.moving))
        self._hypotheses = self._what_may_be_true()
        self._given = failure_model or constant_rate(Lifetimes(()))
        # That a rate changes with age is told from few crashes, and may be chance: believed only
        # while it is certain, as what the trials show by themselves.
        is_ageing = self._given.kind in ("wear-out", "early")
        model = self._model() if is_ageing else self._given
        self._posterior = self._before_trials(model)
        # The choice in force, and how much of it is still to run, on the model's clock: a
        # command that ends by itself needs several runs for one choice.
        self._standing: tuple[Choice, float] | None = None
        self._last_plan: Plan | None = None

    # Trials

    def next_trial(
        self,
        budget: float | None = None,
        running: Iterable[Plan] = (),
        seek_alternatives: bool = False,
    ) -> Plan | None:
        """What to run next; None when the verdict is final or the budget is used up.

        `budget` is the exposure that may still be spent. `running` are plans of trials that
        run at the same time: what they came through so far counts, and what they may still show
        is weighed with the choice. With `seek_alternatives`, a confirmed change is followed by
        the search for others that would do as well.
        """
        if budget is not None and budget <= 0.0:
            return None
        busy = list(running)
        posterior = self._with_running(busy)
        repeats = any(not plan.changes for plan in busy)
        status, mask, _ = decide(posterior, len(self.changes), self.confidence)
        if not posterior.crashes:
            plan = self._plan(0, _FIRST_TRIAL, "to see the failure without any change", budget)
        elif self._needs_repeat(posterior) and not repeats:
            plan = self._plan(
                0,
                _REPEAT_MEANS * posterior.mean_time_to_failure(),
                "whether it fails at the same place again",
                budget,
            )
        elif status == "confirmed" and seek_alternatives:
            for plan in busy:
                posterior = self._imagine(posterior, plan)
            alternative = self._alternative(posterior, mask)
            if alternative is None:
                return None
            plan = self._plan(*alternative, "whether another change would do as well", budget)
        elif status != "inconclusive":
            return None
        elif (sure := leading_set(posterior, len(self.changes), self.confidence)) is not None:
            plan = self._on_its_own(posterior, sure, budget)
        else:
            choice = self._beside(posterior, busy) if busy else self._choice(posterior)
            applied = choice.applied
            if posterior.clean[applied] and not posterior.has_gone_far_enough(applied):
                plan = self._far_beyond(applied, budget)  # again: then as far as it has to go
            else:
                why = self._why(posterior, choice)
                plan = self._plan(applied, choice.counted, why, budget)
        if plan in busy and posterior.model.is_at_a_step:
            return None  # one is on its way beyond the step, and a second would tell no more
        self._last_plan = plan
        return plan

    def should_stop(
        self, running_exposure: float, plan: Plan | None = None, beside: Iterable[Plan] = ()
    ) -> bool:
        """Has the running trial said enough by having survived so far?

        Together with the trials `beside` it, each for what it has `done`.
        """
        plan = plan or self._last_plan
        if plan is None or running_exposure >= plan.exposure_limit:
            return True
        if not self._posterior.crashes:
            return False
        return self._decides(
            self._with_running(beside).after(self._mask(plan.changes), running_exposure, False)
        )

    def record(self, result: TrialResult) -> None:
        """Take note of what came of a trial, planned or not."""
        mask = self._mask(result.changes)
        crashed = result.outcome == "crashed"
        self.trials.append(result)
        model = self._model() if crashed else self._posterior.model
        if model != self._posterior.model:
            # Another kind of failure: everything seen so far counts differently.
            self._posterior = self._replay(model)
            self._standing = None
            return
        counted = self._posterior.observe(mask, result.exposure, crashed, self._is_whole(result))
        if self._standing is not None:
            choice, left = self._standing
            left -= counted
            is_done = crashed or mask != choice.applied or left <= 1e-9 * choice.counted
            self._standing = None if is_done else (choice, left)

    # Answers

    def verdict(self) -> Verdict:
        return give_verdict(self._posterior, self.changes, self.confidence)

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is final; costs less than the verdict."""
        return self._decides(self._posterior)

    def posterior(self, limit: int = 10) -> list[Likely]:
        """What may be true, the likeliest first."""
        return list(rank(self._posterior, self.changes, limit))

    def including(self, running: Iterable[Plan]) -> Investigation:
        """What would be believed if trials under way were stopped now."""
        twin = copy.copy(self)
        twin._posterior = self._with_running(running)
        return twin

    def stakes(self, plan: Plan) -> Stakes | None:
        """What the outcomes of a trial would mean; None where it only tells how often it fails."""
        now = self._posterior
        mask = self._mask(plan.changes)
        if not (plan.changes and now.crashes):
            return None
        mean = now.model.exposure_for(now.mean_time_to_failure())
        far = min(plan.exposure_limit, self.run_length or math.inf)
        twin = copy.copy(self)
        twin._posterior = now.after(mask, max(1e-3, min(far, mean)), True)
        leading = twin.posterior(1)[0] if twin._posterior.living else None
        if not math.isfinite(far):
            far = 3.0 * mean
        clean = now.after(mask, far, False)
        return Stakes(_safe(now, mask), _safe(clean, mask), far, leading)

    @property
    def failure_model(self) -> FailureModel:
        return self._posterior.model

    @property
    def exposure_used(self) -> float:
        return math.fsum(trial.exposure for trial in self.trials)

    # Inside

    def _what_may_be_true(self) -> list[Hypothesis]:
        return build_hypotheses(self.changes, self.priors, self.max_pairs, self._exclusive)

    def _names(self, applied: int) -> tuple[str, ...]:
        """The changes of a set: what `_mask` makes of them, back."""
        return names_of(applied, self.changes)

    def _mask(self, changes: Iterable[str]) -> int:
        mask = 0
        for change in changes:
            if change not in self._bit:
                raise ValueError(f"not one of the changes under investigation: {change!r}")
            mask |= self._bit[change]
        return mask

    def _is_whole(self, trial: TrialResult) -> bool:
        return trial.ended_itself or (self._ends_at is not None and trial.exposure >= self._ends_at)

    def _needs_repeat(self, posterior: Posterior) -> bool:
        """One crash does not say whether it comes at random or always there.

        If always there, trials that end before that step say nothing; if at random, one
        crash makes every clean stretch worth so little that a second is the cheapest step.
        """
        if posterior.crashes != 1 or posterior.model.kind == "fixed-step":
            return False
        seen = self._lifetimes()
        return math.fsum(seen.survivals) < _REPEAT_MEANS * max(seen.crash_times, default=0.0)

    def _with_running(self, running: Iterable[Plan]) -> Posterior:
        """The posterior with what trials under way came through so far."""
        posterior = self._posterior
        for plan in running:
            if plan.done > 0.0:
                posterior = posterior.after(self._mask(plan.changes), plan.done, False)
        return posterior

    def _choice(self, posterior: Posterior) -> Choice:
        if self._standing is not None:
            choice, left = self._standing
            return replace(choice, counted=left)
        overhead, length = self._costs(posterior)
        asked = posterior, len(self.changes), self.confidence, overhead, self._exclusive
        choice = narrow(*asked) or choose_trial(*asked, length)
        if not posterior.model.is_at_a_step:
            choice = replace(choice, counted=self._until_decided(posterior, choice))
        self._standing = choice, choice.counted
        return choice

    def _beside(self, posterior: Posterior, busy: Sequence[Plan]) -> Choice:
        """A trial that runs at the same time as others."""
        overhead, length = self._costs(posterior)
        clock = posterior.model.operational_time
        longest = posterior.model.exposure_for(3.0 * posterior.mean_time_to_failure())
        under_way = []
        for plan in busy:
            ends = min(plan.exposure_limit, max(longest, 2.0 * plan.done))
            left = min(clock(ends), length) - clock(plan.done)
            under_way.append(UnderWay(self._mask(plan.changes), left))
        asked = posterior, len(self.changes), self.confidence, overhead, self._exclusive
        alone = narrow(*asked)
        if alone is not None and alone.applied.bit_count() == 1:
            return alone  # what is left is its clean stretch, which copies share
        return choose_beside(*asked, length, under_way)

    def _costs(self, posterior: Posterior) -> tuple[float, float]:
        """What a start costs, and where a run ends by itself, on the model's clock."""
        model = posterior.model
        # Where passes of a step count, each costs one start and one way to the step.
        overhead = 0.0 if model.is_at_a_step else model.operational_time(self.overhead)
        return overhead, model.operational_time(self.run_length or 0.0) or math.inf

    def _decides(self, posterior: Posterior) -> bool:
        return decide(posterior, len(self.changes), self.confidence)[0] != "inconclusive"

    def _until_decided(self, posterior: Posterior, choice: Choice) -> float:
        """The choice's length, or less if surviving that long already decides."""

        def decides(counted: float) -> bool:
            exposure = posterior.model.exposure_for(counted)
            return self._decides(posterior.after(choice.applied, exposure, False))

        low, high = 0.0, choice.counted
        if decides(high):
            while high - low > 0.01 * choice.counted:
                middle = 0.5 * (low + high)
                low, high = (low, middle) if decides(middle) else (middle, high)
        return high

    def _on_its_own(self, posterior: Posterior, sure: int, budget: float | None) -> Plan:
        """What the posterior is sure of still has to be clean with nothing else applied.

        Where the failure comes at a fixed step, far beyond that step.
        """
        if not posterior.has_gone_far_enough(sure):
            return self._far_beyond(sure, budget)
        names = names_of(sure, self.changes)
        mean = posterior.mean_time_to_failure()
        left = max(0.05 * mean, 1.01 * mean - posterior.clean[sure])
        suffice = "suffices" if len(names) == 1 else "suffice"
        why = f"whether {' and '.join(names)} {suffice} with nothing else"
        return self._plan(sure, left, why, budget)

    def _far_beyond(self, applied: int, budget: float | None) -> Plan:
        """So far past the step that it is gone, and does not only come later."""
        model = self._posterior.model
        far = max(1.1 * self._posterior.far_beyond(applied), model.clear_of_the_step)
        names = self._names(applied)
        exposure = far if budget is None else min(far, budget)
        return Plan(names, exposure, "whether it only comes later with it")

    def _plan(self, applied: int, counted: float, reason: str, budget: float | None) -> Plan:
        model = self._posterior.model
        exposure = model.exposure_for(counted) if math.isfinite(counted) else counted
        # A run that ends by itself before it is clear of the step is told by its ending.
        if self.run_length is not None and not model.is_at_a_step:
            exposure = min(exposure, self.run_length)
        if budget is not None:
            exposure = min(exposure, budget)
        return Plan(self._names(applied), exposure, reason)

    def _why(self, posterior: Posterior, choice: Choice) -> str:
        applied = choice.applied
        count = applied.bit_count()
        if not applied:
            return "how often it fails without any change"
        if count == 1:
            name = names_of(applied, self.changes)[0]
            return f"whether {name} alone removes it"
        if count == len(self.changes):
            return "whether all changes together remove it"
        standing = stand(posterior, len(self.changes))
        best = max(range(len(self.changes)), key=standing.removes.__getitem__)
        if not applied >> best & 1 and standing.removes[best] > 0.5:
            return f"whether it still fails without {self.changes[best]}"
        return f"whether what removes it is among these {count}"

    def _alternative(self, posterior: Posterior, confirmed: int) -> tuple[int, float] | None:
        """Half of what could do as well as the confirmed change, or None if all is known."""
        if confirmed.bit_count() != 1:
            return None
        standing = stand(posterior, len(self.changes))
        open_ones = [
            i
            for i, chance in enumerate(standing.removes)
            if not confirmed >> i & 1 and 1.0 - self.confidence < chance < self.confidence
        ]
        total = math.fsum(standing.removes[i] for i in open_ones)
        if not open_ones:
            return None
        open_ones.sort(key=lambda i: -standing.removes[i])
        applied, taken = 0, 0.0
        for i in open_ones:
            if any(group >> i & 1 and group & applied for group in self._exclusive):
                continue
            if applied and taken >= 0.5 * total and standing.removes[i] < 0.5:
                break
            applied |= 1 << i
            taken += standing.removes[i]
            if standing.removes[i] >= 0.5:
                break
        return applied, 2.0 * posterior.mean_time_to_failure()

    def _imagine(self, posterior: Posterior, plan: Plan) -> Posterior:
        """The posterior after the likelier ending of a trial that is under way."""
        if not posterior.crashes:
            return posterior
        mask = self._mask(plan.changes)
        pairs = zip(posterior.probabilities(), posterior.living, strict=True)
        safe = math.fsum(p for p, w in pairs if w.hypothesis.rate(mask) == 0.0)
        mean = posterior.mean_time_to_failure()
        exposure = min(plan.exposure_limit, posterior.model.exposure_for(2.0 * mean))
        if safe >= 0.5:
            return posterior.after(mask, exposure, False)
        return posterior.after(mask, min(exposure, posterior.model.exposure_for(mean)), True)

    def _lifetimes(self) -> Lifetimes:
        """Crashes under any changes, and clean runs without any: what is surely at risk."""
        crashes = [t.exposure for t in self.trials if t.outcome == "crashed"]
        clean = [t.exposure for t in self.trials if t.outcome != "crashed" and not t.changes]
        return Lifetimes.of(
            [*self._given.lifetimes.crash_times, *crashes],
            [*self._given.lifetimes.survivals, *clean],
        )

    def _model(self) -> FailureModel:
        """The kind of failure as the crashes so far show it."""
        given = self._given
        seen = self._lifetimes()
        if given.kind == "fixed-step":
            if all(time <= given.past_the_step for time in seen.crash_times):
                return given
        elif given.kind in ("phase-boundary", "accumulation-boundary"):
            return given
        model = classify(
            seen.crash_times, seen.survivals, self.periods, resolution=given.resolution
        )
        p_values = [f.p_value for f in model.findings if f.p_value is not None]
        is_certain = min(p_values, default=1.0) < _PATTERN_LEVEL
        if model.kind == "fixed-step" or (model.kind != "constant-rate" and is_certain):
            return model
        return replace(given, kind="constant-rate", step=None, shape=None, scale=None)

    def _before_trials(self, model: FailureModel) -> Posterior:
        return Posterior(self._hypotheses, model, self._given.lifetimes, self._moved)

    def _replay(self, model: FailureModel) -> Posterior:
        posterior = self._before_trials(model)
        for trial in self.trials:
            posterior.observe(
                self._mask(trial.changes),
                trial.exposure,
                trial.outcome == "crashed",
                self._is_whole(trial),
            )
        return posterior


def _safe(posterior: Posterior, mask: int) -> float:
    """That the failure does not come with these changes, other than by luck."""
    pairs = zip(posterior.probabilities(), posterior.living, strict=True)
    return math.fsum(chance for chance, each in pairs if each.hypothesis.rate(mask) == 0.0)
