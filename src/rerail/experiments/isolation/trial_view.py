"""How the trials of an investigation stand: what is asked, how far it is, what it means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rerail.experiments.planner.inquiry import Stakes
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials.live_view import WIDTH, bar, how_far, wrapped
from rerail.experiments.trials.trial import Trial
from rerail.wording import counted, cut, listed, percent, seconds_in_words

if TYPE_CHECKING:
    from rerail.experiments.isolation.options import PlannedTrial
    from rerail.experiments.isolation.session import InvestigationSession

_MOST_ROWS = 6
_MOST_IN_FULL = 2  # trials under way whose outcomes are spelt out
_MOST_NAMES = 3
_BEYOND_THE_TEXT = 38  # a bar, a percentage and what is around them


@dataclass(frozen=True)
class TrialNow:
    """A trial under way, in words."""

    number: int
    question: str
    progress: str  # "step 340 of about 1,200"
    share: float | None  # of the way; None where nobody knows how far it goes
    left_seconds: float | None
    meaning: str


def trial_now(each: PlannedTrial, session: InvestigationSession) -> TrialNow:
    unit = session.journal.unit
    ends = min(each.plan.exposure_limit, _usual_length(session) or math.inf)
    pace = each.pace(unit)
    is_known = math.isfinite(ends) and ends > 0.0
    left = max(0.0, ends - each.exposure) / pace if is_known and pace else None
    return TrialNow(
        each.number,
        each.question,
        how_far(each.exposure, ends if is_known else None, unit),
        min(1.0, each.exposure / ends) if is_known else None,
        left,
        each.meaning,
    )


def asked_by(whole: Plan, plan: Plan, session: InvestigationSession) -> tuple[str, str]:
    """What a trial asks, and what its outcomes would mean. `whole` has what was raised too."""
    planner, journal = session.investigation, session.journal
    if planner is None:
        return question_of(whole, ()), ""
    is_raise_known = whole.changes == (*journal.raised, *plan.changes)
    if session.start_test.under_test is not None or not is_raise_known:
        return f"{question_of(whole, planner.changes)} ({plan.reason})", ""
    meaning = meaning_of(plan, planner.stakes(plan), journal.unit)
    return question_of(plan, planner.changes), meaning


def question_of(plan: Plan, changes: Sequence[str]) -> str:
    """What a trial asks. `changes` are all that are under investigation."""
    names = plan.changes
    if not names:
        return "does it fail without any change?"
    if "later" in plan.reason:
        return f"does it only come later with {listed(names)}?"
    missing = [change for change in changes if change not in names]
    if len(names) <= _MOST_NAMES:
        return f"does it still fail with {listed(names)}?"
    if not missing:
        return f"does it still fail with all {len(names)} changes?"
    if len(missing) <= _MOST_NAMES:
        return f"does it still fail with all changes but {listed(missing)}?"
    return f"does it still fail with these {len(names)} of {len(changes)}: {listed(names)}?"


def meaning_of(plan: Plan, stakes: Stakes | None, unit: str) -> str:
    """What each outcome would mean for what is believed."""
    if stakes is None:
        return ""
    one = plan.changes[0] if len(plan.changes) == 1 else ""
    what, fix = (one, one) if one else ("these changes", "one of these changes")
    now = percent(stakes.now, 1)
    # In the model a set that failed once does not remove the failure: nothing is left of it.
    crash = f"If this trial fails, {what} did not help (now {now} likely to help)"
    if stakes.leading_if_crashed is not None:
        then = stakes.leading_if_crashed
        crash += f"; then it is most likely that {then.text} ({percent(then.probability, 1)})"
    until = how_far(stakes.clean_until, None, unit)
    clean = percent(stakes.if_clean, 1)
    return f"{crash}. If it is clean until {until}, it is {clean} likely that {fix} helps."


@dataclass(frozen=True)
class TrialsNow:
    """The trials under way, for a view."""

    session: InvestigationSession

    def line(self) -> str:
        session = self.session
        far = "; ".join(trial_now(each, session).progress for each in session.under_way)
        return f"{far}; {_budget(session)}"

    def block(self, width: int) -> list[str]:
        return block(self.session, width)


def block(session: InvestigationSession, width: int = WIDTH) -> list[str]:
    """The whole view, line by line, none wider than `width`."""
    lines: list[str] = []
    for at, each in enumerate(session.under_way):
        now = trial_now(each, session)
        lines += wrapped([f"Trial {now.number}: {now.question}"], width)
        drawn = f"  {bar(now.share)} " if now.share is not None else "  "
        left = f", about {seconds_in_words(now.left_seconds)} left" if now.left_seconds else ""
        lines.append(f"{drawn}{now.progress}{left}")
        if now.meaning and at < _MOST_IN_FULL:
            lines += wrapped([f"  {now.meaning}"], width)
    if session.investigation is not None:
        lines.append("What may be true")
        room = width - _BEYOND_THE_TEXT
        # By all that was seen up to now, also of trials under way: the bars move while they run.
        for likely in session.investigation.including(session.beside(None)).posterior(_MOST_ROWS):
            text = cut(likely.text, room)
            chance = percent(likely.probability, 1)
            lines.append(f"  {text:<{room}} {bar(likely.probability)} {chance:>13}".rstrip())
    lines += wrapped([f"{_budget(session)}. Ctrl-C keeps everything."], width)
    return [line[:width] for line in lines]


def what_came_of(trial: Trial) -> str:
    distance = trial.distance
    far = counted(distance.steps, "step") if distance.steps else f"{distance.seconds:.1f} s"
    text = trial.in_words(far)
    if trial.not_applied:
        text += f"; {', '.join(trial.not_applied)} did not take effect"
    return text


def _usual_length(session: InvestigationSession) -> float | None:
    """How far runs come that end by themselves, as far as one has."""
    unit = session.journal.unit
    finished = [t.exposure(unit) for t in session.journal.trials if t.outcome == "finished"]
    return max(finished, default=0.0) or None


def _budget(session: InvestigationSession) -> str:
    whole = session.options.budget_seconds
    left = max(0.0, session.seconds_left)
    made = len(session.journal.trials)
    failed = sum(trial.outcome == "crashed" for trial in session.journal.trials)
    trials = f"{made} trial{'s' * (made != 1)} made, {failed} failed"
    if session.trials_left is not None:
        trials += f", at most {session.trials_left} more"
    return f"{trials}; {seconds_in_words(left)} of {seconds_in_words(whole)} left"
