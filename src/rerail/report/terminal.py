"""The answer that a person reads on the terminal.

In: the contract's diagnosis document. Out: text of at most MOST_LINES lines that fits the width:
how it ended, what was happening, the leading cause with its evidence quoted and where to see it,
what speaks against it, the remedy to type, what would tell the candidates apart, the others.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import Any, TextIO

MOST_LINES = 38
PLAIN_WIDTH = 80
_WIDEST = 100
_BOLD, _DIM, _RED, _GREEN, _END = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
_SAFETY = {
    "safe": "safe",
    "changes-results": "changes results",
    "hides-it": "hides it, does not cure it",
}


def show(document: dict[str, Any], stream: TextIO) -> None:
    """Write the answer; colours only where a terminal shows them."""
    is_terminal = stream.isatty()
    width = min(shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, _WIDEST)
    colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    stream.write(render(document, width if is_terminal else _plain_width(), colours=colours))
    stream.flush()


def _plain_width() -> int:
    try:
        return max(40, min(int(os.environ["COLUMNS"]), _WIDEST))
    except (KeyError, ValueError):
        return PLAIN_WIDTH


def render(document: dict[str, Any], width: int = PLAIN_WIDTH, *, colours: bool = False) -> str:
    """The whole answer, ending with a newline."""
    from rerail.report.terminal_facts import what_was_happening

    page = _Page(width, colours)
    outcome = document.get("outcome") or {}
    causes = document.get("causes") or []
    page.paragraph(str(outcome.get("summary") or "It is not known how it ended."), style=_BOLD)
    for line in what_was_happening(document.get("facts") or {}, outcome):
        page.paragraph(line, indent="  ")
    if document.get("incomplete"):
        page.paragraph(str(document["incomplete"]), indent="  ")
    if not causes:
        page.paragraph(_nothing_found(outcome), style=_GREEN if outcome.get("kind") == "ok" else "")
        return page.text()
    page.blank()
    _leading(page, causes[0])
    _next(page, document.get("next") or {})
    _others(page, causes)
    return page.text()


def _nothing_found(outcome: dict[str, Any]) -> str:
    if outcome.get("kind") == "ok":
        return "No fault was found: it finished."
    return "No cause in the catalogue fits what was observed."


def _leading(page: _Page, cause: dict[str, Any]) -> None:
    page.paragraph(
        f"{cause['title']}  ({cause['id']}, {_percent(cause['probability'])})", style=_BOLD + _RED
    )
    for reason in cause.get("for", [])[:4]:
        page.quoted("because", reason)
    for reason in cause.get("against", [])[:2]:
        page.quoted("against", reason)
    remedies = cause.get("remedies", [])
    if remedies:
        page.blank()
        page.paragraph("What to do", style=_BOLD)
    for remedy in remedies[:4]:
        safety = _SAFETY.get(remedy.get("safety", ""), remedy.get("safety", ""))
        page.paragraph(f"{remedy['title']}  [{safety}]", bullet="- ")
        if remedy.get("change"):
            page.paragraph(" ".join(remedy["change"]), indent="    ", style=_GREEN)
        if remedy.get("note"):
            page.paragraph(remedy["note"], indent="    ", style=_DIM)


def _next(page: _Page, step: dict[str, Any]) -> None:
    if not step.get("text"):
        return
    page.blank()
    page.paragraph("What would tell", style=_BOLD)
    page.paragraph(step["text"], indent="  ")
    if step.get("command"):
        page.paragraph(step["command"], indent="    ", style=_GREEN)


def _others(page: _Page, causes: list[dict[str, Any]]) -> None:
    others = [cause for cause in causes[1:5] if cause["probability"] >= 0.01]
    rest = max(0.0, 1.0 - sum(cause["probability"] for cause in causes))
    said = [f"{cause['id']} {_percent(cause['probability'])}" for cause in others]
    said.append(f"something else {_percent(rest)}")
    page.blank()
    page.paragraph("Otherwise: " + ", ".join(said), style=_DIM)


def _percent(probability: float) -> str:
    if 0 < probability < 0.01:
        return "<1%"
    return f"{100 * probability:.0f}%"


class _Page:
    """Lines of a bounded width and number."""

    def __init__(self, width: int, colours: bool) -> None:
        self._width = max(width, 40)
        self._colours = colours
        self._lines: list[tuple[str, str]] = []

    def blank(self) -> None:
        self._lines.append(("", ""))

    def paragraph(self, text: str, *, indent: str = "", bullet: str = "", style: str = "") -> None:
        wrapped = textwrap.wrap(
            " ".join(text.split()),
            self._width,
            initial_indent=indent + bullet,
            subsequent_indent=indent + " " * len(bullet),
            break_on_hyphens=False,
        )
        self._lines += [(line, style) for line in wrapped]

    def quoted(self, label: str, reason: dict[str, Any]) -> None:
        """The observation, cut to two lines, and where it can be seen."""
        source = str(reason.get("source") or "")
        text = " ".join(str(reason.get("text") or "").split())
        room = 2 * (self._width - 12) - len(source) - 4
        if len(text) > room:
            text = text[: room - 1].rstrip() + "…"
        self.paragraph(f"{text}  [{source}]", indent="  ", bullet=f"{label}: ")

    def text(self) -> str:
        lines = self._lines
        if len(lines) > MOST_LINES:
            # Notes are what can best be missed; the JSON and the report have them all.
            lines = [line for line in lines if line[1] != _DIM or line[0].startswith("Otherwise")]
        lines = lines[:MOST_LINES]
        out = []
        for text, style in lines:
            safe = "".join(char if char.isprintable() else "?" for char in text)
            out.append(f"{style}{safe}{_END}" if self._colours and style else safe)
        return "\n".join(out) + "\n"
