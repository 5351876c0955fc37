"""The answer that a person reads on the terminal.

In: a diagnosis. Out: text of at most MOST_LINES lines that fits the width.
First the fact in one sentence; then, each behind a word that says what it is: the cause, where and
when it was, what speaks for it, the fix to type, how to prove it; last, what else it may be and
where to read on. A line is there only if the run or the log has something to say on it.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TYPE_CHECKING, Any, TextIO

from rerail.catalogue import load_catalogue
from rerail.diagnosis import ending_of_diagnosis, summary_of
from rerail.platform.os_text import printable
from rerail.wording import LEAST, cut, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rerail.diagnosis import Candidate, Diagnosis, NextStep, SecondOpinion
    from rerail.records import Observation, Outcome

MOST_LINES = 30
PLAIN_WIDTH = 80
_WIDEST = 100
_BOLD, _DIM, _RED, _GREEN, _END = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
_LABEL = 8  # columns of the word at the beginning of a line, with its space
_MOST_REASONS = 3
_MOST_REMEDIES = 3
_SAFETY = {
    "safe": "safe",
    "changes-results": "changes results",
    "hides-it": "hides it, does not cure it",
}


def show(diagnosis: Diagnosis, stream: TextIO, *, mark: str = "", is_brief: bool = False) -> None:
    """Write the answer, behind a mark if there is one; colours only where a terminal shows them."""
    is_terminal = stream.isatty()
    width = min(shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, _WIDEST)
    colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(
        diagnosis,
        width if is_terminal else _plain_width(),
        colours=colours,
        mark=mark,
        is_brief=is_brief,
    )
    stream.write(text)
    stream.flush()


def _plain_width() -> int:
    try:
        return max(40, min(int(os.environ["COLUMNS"]), _WIDEST))
    except (KeyError, ValueError):
        return PLAIN_WIDTH


def render(
    diagnosis: Diagnosis,
    width: int = PLAIN_WIDTH,
    *,
    colours: bool = False,
    mark: str = "",
    is_brief: bool = False,
) -> str:
    """The whole answer, or the sentence with where to read on; it ends with a newline."""
    from rerail.report.terminal_facts import what_was_happening

    page = _Page(width, colours)
    outcome, facts, causes = diagnosis.outcome, diagnosis.facts, diagnosis.causes
    summary = outcome.summary or "It is not known how it ended."
    summary = summary_of(summary, ending_of_diagnosis(diagnosis))
    headline = diagnosis.headline
    has_failed = bool(causes) or outcome.kind not in ("ok", "unknown")
    page.paragraph(mark + headline, style=_BOLD + _RED if has_failed else _BOLD)
    if is_brief:
        _read_on(page, diagnosis.run or "")
        return page.text()
    if causes:
        _cause(page, causes[0], facts)
    if diagnosis.second_opinion is not None:
        page.item("asked", second_opinion(diagnosis.second_opinion))
    if not _says(headline, summary):
        page.item("end", summary)
    for label, line in what_was_happening(facts, outcome):
        page.item(label, line)
    if diagnosis.incomplete:
        page.item("note", diagnosis.incomplete)
    if causes:
        _reasons(page, causes[0])
        _fixes(page, causes[0])
        _next(page, diagnosis.next_step)
        _others(page, causes)
    else:
        page.paragraph(_nothing_found(outcome, facts), style=_GREEN if outcome.kind == "ok" else "")
    if diagnosis.run and has_failed:
        _read_on(page, diagnosis.run)
    return page.text()


def _says(headline: str, summary: str) -> bool:
    return summary.rstrip(".").lower() in headline.lower()


def _nothing_found(outcome: Outcome, facts: dict[str, Any]) -> str:
    if facts.get("stopped_by_gate"):
        from rerail.report.terminal_facts import STOPPED_BY_GATE

        return STOPPED_BY_GATE
    if outcome.kind == "ok":
        has_finished = "stopped by rerail" not in outcome.summary
        return "No fault was found: it finished." if has_finished else "No fault was found."
    if "still going" in outcome.summary:
        return "Nothing that was observed so far speaks of a failure."
    return "No cause in the catalogue fits what was observed."


def _cause(page: _Page, cause: Candidate, facts: dict[str, Any]) -> None:
    """The class and its id. That an exception was raised is certain, only its reason is not."""
    is_the_exception = cause.cause.policy.is_told_by_exception
    share = (
        ""
        if is_the_exception and facts.get("exception_text")
        else f", {percent(cause.probability)}"
    )
    page.item("cause", f"{cause.title}  ({cause.id}{share})", style=_BOLD)


def second_opinion(opinion: SecondOpinion) -> str:
    """What a model says that was asked: beside our own answer, never part of it."""
    if opinion.error:
        return f"no second opinion: {opinion.error}"
    sources = list(dict.fromkeys(line.source for line in opinion.lines))
    lines = [source[7:] for source in sources if source.startswith("output:")]
    named = [f"{'line' if len(lines) == 1 else 'lines'} {', '.join(lines)}"] if lines else []
    named += [source for source in sources if not source.startswith("output:")]
    title = load_catalogue()[opinion.id].title
    said = f"second opinion of {opinion.model}: {opinion.id}, {title} ({', '.join(named)})"
    return printable(said)


def _reasons(page: _Page, cause: Candidate) -> None:
    for at, reason in enumerate(cause.speaks_for[:_MOST_REASONS]):
        page.quoted("why" if not at else "", reason)
    for reason in cause.speaks_against[:1]:
        page.quoted("against", reason)


def _fixes(page: _Page, cause: Candidate) -> None:
    for at, remedy in enumerate(cause.remedies[:_MOST_REMEDIES]):
        safety = _SAFETY.get(remedy.safety, remedy.safety)
        page.item("fix" if not at else "or", f"{remedy.title}  [{safety}]")
        if remedy.change:
            page.item("", "  " + " ".join(remedy.change), style=_GREEN)
        if remedy.note:
            page.item("", "  " + remedy.note, style=_DIM)


def _next(page: _Page, step: NextStep | None) -> None:
    if step is None or not step.text:
        return
    page.item("prove" if step.command else "next", step.text)
    if step.command:
        page.item("", step.command, style=_GREEN)


def _others(page: _Page, causes: Sequence[Candidate]) -> None:
    others = [cause for cause in causes[1:4] if cause.probability >= 0.01]
    rest = max(LEAST, 1.0 - sum(cause.probability for cause in causes))
    said = [f"{cause.id} {percent(cause.probability)}" for cause in others]
    said.append(f"something else {percent(rest)}")
    page.item("else", ", ".join(said), style=_DIM)


def _read_on(page: _Page, run: str) -> None:
    short = run.rpartition("-")[2]
    page.item("more", f"rerail report {short} --open · rerail pack {short} (to send)", style=_DIM)


class _Page:
    """Lines of a bounded width and number."""

    def __init__(self, width: int, colours: bool) -> None:
        self._width = max(width, 40)
        self._colours = colours
        self._lines: list[tuple[str, str]] = []

    def paragraph(self, text: str, *, style: str = "") -> None:
        self._wrap(text, "", "", style)

    def item(self, label: str, text: str, *, style: str = "") -> None:
        """ "  fix     text", the text in a column of its own."""
        indent = " " * (len(text) - len(text.lstrip()))
        column = " " * (_LABEL + 2)
        self._wrap(text, f"  {label:<{_LABEL}}{indent}", column + indent, style)

    def quoted(self, label: str, reason: Observation) -> None:
        """The observation, cut to two lines, and where it can be seen."""
        source = reason.source
        text = " ".join(reason.text.split())
        room = 2 * (self._width - _LABEL - 4) - len(source) - 4
        self.item(label, f"{cut(text, room)}  [{source}]")

    def _wrap(self, text: str, first: str, later: str, style: str) -> None:
        wrapped = textwrap.wrap(
            " ".join(text.split()),
            self._width,
            initial_indent=first,
            subsequent_indent=later,
            break_on_hyphens=False,
        )
        self._lines += [(line, style) for line in wrapped]

    def text(self) -> str:
        lines = self._lines
        if len(lines) > MOST_LINES:
            # Notes are what can best be missed; the JSON and the report have them all.
            lines = [line for line in lines if line[1] != _DIM or line[0][2:3] != " "]
        lines = lines[:MOST_LINES]
        out = []
        for text, style in lines:
            safe = printable(text)
            out.append(f"{style}{safe}{_END}" if self._colours and style else safe)
        return "\n".join(out) + "\n"
