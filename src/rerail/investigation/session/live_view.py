"""What a person sees while an investigation works: what is asked, how far it is, what it means.

On a terminal a block of at most 80 columns, redrawn in place; else one line where a trial begins
and ends, and at most one a minute in between. Both are drawn from `TrialNow`s, which say of each
trial under way all that is known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rerail.investigation.planner.inquiry import Stakes
from rerail.investigation.planner.observation import Plan
from rerail.investigation.session.trial import Trial, changes_in_words
from rerail.wording import counted, cut, listed, percent, seconds_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from rerail.investigation.session.session import InvestigationSession
    from rerail.investigation.session.watching import UnderWay

WIDTH = 80
LINE_SECONDS = 60.0  # between two lines where nothing can be redrawn
_MOST_ROWS = 6
_MOST_IN_FULL = 2  # trials under way whose outcomes are spelt out
_MOST_NAMES = 3
_BAR = 20


class Lines:
    """One line per beginning and end of a trial, and one a minute, through `write`."""

    def __init__(
        self,
        write: Callable[[str], None],
        ask: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._ask = ask
        self._clock = clock
        self._wrote = clock()

    def said(self, text: str) -> None:
        self._wrote = self._clock()
        self._write(text)

    def started(self, number: int, plan: Plan, question: str, meaning: str) -> None:
        self.said(f"trial {number}: {question}" + (f" {meaning}" if meaning else ""))

    def ended(self, number: int, trial: Trial) -> None:
        self.said(f"trial {number}: {what_came_of(trial)}")

    def moved(self, session: InvestigationSession) -> None:
        if self._clock() - self._wrote >= LINE_SECONDS and session.under_way:
            far = "; ".join(trial_now(each, session).progress for each in session.under_way)
            self.said(f"{far}; {_budget(session)}")

    def may_go_on(self, question: str) -> bool:
        return self._ask is not None and self._ask(question)


class LiveView:
    """What is asked and what is believed, redrawn in place; finished trials scroll by above it."""

    def __init__(self, console: Console, ask: Callable[[str], bool] | None = None) -> None:
        from rich.live import Live

        self._console = console
        self._ask = ask
        self.live: Live = Live(console=console, refresh_per_second=4, transient=True)

    def said(self, text: str) -> None:
        self._console.print(text, markup=False)

    def started(self, number: int, plan: Plan, question: str, meaning: str) -> None:
        pass

    def ended(self, number: int, trial: Trial) -> None:
        changes = (*trial.raised, *trial.changes)
        self.said(f"trial {number}, {changes_in_words(changes)}: {what_came_of(trial)}")

    def moved(self, session: InvestigationSession) -> None:
        from rich.text import Text

        width = min(WIDTH, self._console.width)
        self.live.update(Text("\n".join(block(session, width)), no_wrap=True, overflow="crop"))

    def may_go_on(self, question: str) -> bool:
        return ask_beside(self.live, self._ask, question)


def ask_beside(live: Live, ask: Callable[[str], bool] | None, question: str) -> bool:
    """Ask with the screen at rest: an answer cannot be typed into what is redrawn."""
    if ask is None:
        return False
    live.stop()
    try:
        return ask(question)
    finally:
        live.start()


@dataclass(frozen=True)
class TrialNow:
    """A trial under way, in words."""

    number: int
    question: str
    progress: str  # "step 340 of about 1,200"
    share: float | None  # of the way; None where nobody knows how far it goes
    left_seconds: float | None
    meaning: str


def trial_now(each: UnderWay, session: InvestigationSession) -> TrialNow:
    unit = session.notebook.unit
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


def how_far(exposure: float, ends: float | None, unit: str) -> str:
    """ "step 340 of about 1,200", "34 s of about 120 s"; "just started" before the first."""
    if unit == "seconds":
        words = f"{exposure:,.0f} s"
        return words + (f" of about {math.ceil(ends):,} s" if ends else "")
    if exposure < 1.0:
        return "starting" + (f", about {math.ceil(ends):,} {unit} to run" if ends else "")
    name = "step" if unit == "steps" else "batch"
    return f"{name} {exposure:,.0f}" + (f" of about {math.ceil(ends):,}" if ends else "")


def asked_by(whole: Plan, plan: Plan, session: InvestigationSession) -> tuple[str, str]:
    """What a trial asks, and what its outcomes would mean. `whole` has what was raised too."""
    planner, notebook = session.investigation, session.notebook
    if planner is None:
        return question_of(whole, ()), ""
    is_raise_known = whole.changes == (*notebook.raised, *plan.changes)
    if session.beginning.under_test is not None or not is_raise_known:
        return f"{question_of(whole, planner.changes)} ({plan.reason})", ""
    meaning = meaning_of(plan, planner.stakes(plan), notebook.unit)
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


def block(session: InvestigationSession, width: int = WIDTH) -> list[str]:
    """The whole view, line by line, none wider than `width`."""
    lines: list[str] = []
    for at, each in enumerate(session.under_way):
        now = trial_now(each, session)
        lines += _wrapped(f"Trial {now.number}: {now.question}", "  ", width)
        drawn = f"  {bar(now.share)} " if now.share is not None else "  "
        left = f", about {seconds_in_words(now.left_seconds)} left" if now.left_seconds else ""
        lines.append(f"{drawn}{now.progress}{left}")
        if now.meaning and at < _MOST_IN_FULL:
            lines += _wrapped(f"  {now.meaning}", "  ", width)
    if session.investigation is not None:
        lines.append("What may be true")
        room = width - _BAR - 18
        # By all that was seen up to now, also of trials under way: the bars move while they run.
        for likely in session.investigation.including(session.beside(None)).posterior(_MOST_ROWS):
            text = cut(likely.text, room)
            chance = percent(likely.probability, 1)
            lines.append(f"  {text:<{room}} {bar(likely.probability)} {chance:>13}".rstrip())
    lines += _wrapped(f"{_budget(session)}. Ctrl-C keeps everything.", "", width)
    return [line[:width] for line in lines]


def bar(share: float, width: int = _BAR) -> str:
    full = round(min(1.0, max(0.0, share)) * width)
    return "━" * full + "╌" * (width - full)


def what_came_of(trial: Trial) -> str:
    distance = trial.distance
    far = counted(distance.steps, "step") if distance.steps else f"{distance.seconds:.1f} s"
    text = trial.in_words(far)
    if trial.not_applied:
        text += f"; {', '.join(trial.not_applied)} did not take effect"
    return text


def _usual_length(session: InvestigationSession) -> float | None:
    """How far runs come that end by themselves, as far as one has."""
    unit = session.notebook.unit
    finished = [t.exposure(unit) for t in session.notebook.trials if t.outcome == "finished"]
    return max(finished, default=0.0) or None


def _budget(session: InvestigationSession) -> str:
    whole = session.options.budget_seconds
    left = max(0.0, session.seconds_left)
    made = len(session.notebook.trials)
    failed = sum(trial.outcome == "crashed" for trial in session.notebook.trials)
    trials = f"{made} trial{'s' * (made != 1)} made, {failed} failed"
    if session.trials_left is not None:
        trials += f", at most {session.trials_left} more"
    return f"{trials}; {seconds_in_words(left)} of {seconds_in_words(whole)} left"


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    import textwrap

    start = indent if text.startswith(indent) else ""
    return textwrap.wrap(
        text.strip(), width, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )
