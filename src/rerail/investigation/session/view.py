"""What a person sees of an investigation: progress while it works, and the answer at its end.

On a terminal a table of what may be true with the budget that is left, redrawn in place; else one
line per trial. The answer stays under 40 lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rerail.investigation.edits.words import headline_about_program, lines_about_program
from rerail.investigation.planner.observation import Plan
from rerail.investigation.session.start import about_the_start
from rerail.investigation.session.trial import Trial, changes_in_words
from rerail.wording import seconds_in_words

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from rerail.investigation.session.session import InvestigationSession

_MOST_ROWS = 8


class Lines:
    """One line per trial, through `write`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def said(self, text: str) -> None:
        self._write(text)

    def started(self, number: int, plan: Plan) -> None:
        self._write(f"trial {number}: {changes_in_words(plan.changes)}: {plan.reason}")

    def ended(self, number: int, trial: Trial) -> None:
        self._write(f"trial {number}: {_what_came_of(trial)}")

    def moved(self, session: InvestigationSession) -> None:
        pass


class Table:
    """The posterior, redrawn in place; finished trials scroll by above it."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self.live: Live = Live(console=console, refresh_per_second=4, transient=True)

    def said(self, text: str) -> None:
        self._console.print(text, markup=False)

    def started(self, number: int, plan: Plan) -> None:
        pass

    def ended(self, number: int, trial: Trial) -> None:
        changes = (*trial.raised, *trial.changes)
        text = f"trial {number}, {changes_in_words(changes)}: {_what_came_of(trial)}"
        self._console.print(text, markup=False)

    def moved(self, session: InvestigationSession) -> None:
        self.live.update(_table(session))


def _table(session: InvestigationSession) -> RenderableType:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    parts: list[RenderableType] = []
    if session.investigation is not None:
        table = RichTable("what may be true", "probability", box=None, padding=(0, 2))
        for likely in session.investigation.posterior(_MOST_ROWS):
            table.add_row(Text(likely.text), f"{likely.probability:.1%}")
        parts.append(table)
    for each in session.under_way:
        far = f", {each.exposure:g} {session.notebook.unit}" if each.exposure else ""
        parts.append(Text(f"trial {each.number}: {changes_in_words(each.plan.changes)}{far}"))
    left = max(0.0, session.seconds_left)
    trials = "" if session.trials_left is None else f", {session.trials_left} trials"
    parts.append(
        Text(f"left of the budget: {seconds_in_words(left)}{trials}. Ctrl-C keeps everything.")
    )
    return Group(*parts)


def _what_came_of(trial: Trial) -> str:
    distance = trial.distance
    far = f"{distance.steps} steps" if distance.steps else f"{distance.seconds:.1f} s"
    text = trial.in_words(far)
    if trial.not_applied:
        text += f"; {', '.join(trial.not_applied)} did not take effect"
    return text


def summary_lines(document: dict[str, Any]) -> list[str]:
    """The answer in sentences."""
    lines = [_headline(document)]
    for built in document.get("environments", ()):
        if built["besides"] and built["changes"] == document["changes"]:
            lines.append(f"It had to change besides: {', '.join(built['besides'])}.")
    if document["alternatives"]:
        others = "; ".join(" and ".join(each) for each in document["alternatives"])
        lines.append(f"So does: {others}")
    if document["reason"] and document["status"] != "confirmed":
        lines.append(document["reason"][:1].upper() + document["reason"][1:] + ".")
    lines += lines_about_program(document)
    failure = document.get("failure")
    if failure:
        cause = f" ({failure['cause']})" if failure["cause"] else ""
        lines.append(f"The failure: {failure['summary']}{cause}.")
    lines += _about_the_raise(document)
    lines += about_the_start(document)
    for change, evidence in list(document["ruled_out_by"].items())[:10]:
        lines.append(f"Ruled out: {change}: {evidence}.")
    for change, why in list(document["not_applicable"].items())[:6]:
        lines.append(f"Left out: {change}: {why}.")
    if document["status"] == "inconclusive":
        if document["ended_because"]:
            lines.append(f"It ended because: {document['ended_because']}.")
        for likely in document["posterior"][:5]:
            lines.append(f"  {likely['probability']:6.1%}  {likely['text']}")
        lines.append("The same command goes on from here.")
    made = document.get("reproducer")
    if made:
        what = "it fails as expected" if made["fails"] else "it did not fail when it was checked"
        lines.append(f"Reproducer: sh {made['folder']}/run.sh ({what})")
    trials = document["trials"]
    crashed = sum(trial["outcome"] == "crashed" for trial in trials)
    lines.append(
        f"{len(trials)} trial{'s' * (len(trials) != 1)}, {crashed} failed,"
        f" {document['exposure_used']} {document['unit']}, {seconds_in_words(document['seconds'])};"
        " every one is a run: `rerail runs`"
    )
    return lines


def _about_the_raise(document: dict[str, Any]) -> list[str]:
    raised = document.get("raised")
    if not raised:
        return []
    names = " and ".join(raised["changes"])
    if not raised["adopted"]:
        why = raised["why_not"] or "it was not measured to the end"
        return [f"To make it fail sooner, {names} was tried and not kept: {why}."]
    lines = [
        f"All trials ran with {names}, where it fails {raised['ratio']:g} times as often:",
        "the answer is for that setting.",
    ]
    if document["status"] == "confirmed":
        fix = " ".join(f"--with {shlex.quote(change)}" for change in document["changes"])
        lines.append(f"For the command as it is: rerail verify {fix} -- CMD")
    return lines


def _headline(document: dict[str, Any]) -> str:
    status = document["status"]
    sure = f"confidence {document['confidence']:.1%}"
    about_program = headline_about_program(document, sure)
    if about_program:
        return about_program
    if status == "confirmed":
        names = " and ".join(document["changes"])
        verb = "removes" if len(document["changes"]) == 1 else "together remove"
        return f"Confirmed: {names} {verb} the failure ({sure})."
    if status == "none-of-these":
        return f"None of these: the failure comes whatever of them is changed ({sure})."
    if status == "not-reproduced":
        return "Not reproduced: the failure did not come back."
    return "Inconclusive: not decided yet."
