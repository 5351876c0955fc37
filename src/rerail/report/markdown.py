"""The report as Markdown, to paste into an issue or to read in a terminal.

In: a `Document`. Out: text. Texts of the run stay texts: what Markdown or HTML takes for markup
is escaped, a listing's fence is longer than any row of backticks inside it, and an element that a
browser would act on is broken even there: not every viewer of Markdown leaves code as it is.
"""

from __future__ import annotations

import re

from rerail.platform.os_text import shown, shown_value
from rerail.report.document import (
    Block,
    CauseView,
    Chart,
    Cited,
    Document,
    Facts,
    Listing,
    Paragraph,
    Proof,
    Table,
)
from rerail.report.numbers import chart_table
from rerail.wording import percent

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#])")
# What begins a block when it stands first on a line.
_LEADING = re.compile(r"^(\d*)([-+=](?=\s|[-+=]|$)|(?<=\d)[.)](?=\s|$))")
# `in <module>` of a traceback stays as it is; these would run, load or cover something.
_ACTIVE = re.compile(
    r"(?i)<(?=/?(?:script|iframe|object|embed|svg|math|img|image|style|link|meta|base|form|input|button"
    r"|video|audio|source|template|textarea|select|details|body|html|head|title|xmp|plaintext"
    r"|noscript|frame|frameset|applet|marquee|a|area|map|portal)\b|!--|!\[CDATA)"
)
_MOST_FOLDED_ROWS = 60


def render(document: Document) -> str:
    document = shown_value(document)
    proof = document.proof
    parts = [escape(proof.answer)] if proof and proof.answer else []
    parts += [f"# {escape(document.title)}", escape(document.cause), escape(document.summary)]
    parts += [_proof(proof) if proof else "", _block(document.facts)]
    for section in document.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [_block(block) for block in section.blocks]
    parts.append(f"Run {escape(document.run_id)}; made by {escape(document.generator)}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Plain text on one line, none of which Markdown takes for markup."""
    text = _SPECIAL.sub(r"\\\1", " ".join(shown(text).split()))
    # Entities, not backslashes: also a viewer that takes HTML before Markdown sees no element.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LEADING.sub(r"\1\\\2", text)


def code(text: str) -> str:
    """Inline code; a text with backticks gets a longer fence."""
    text = _inert(" ".join(text.split()))
    fence = "`" * (_longest_row(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str) -> str:
    text = _inert(text)
    fence = "`" * max(3, _longest_row(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _inert(text: str) -> str:
    return _ACTIVE.sub(r"<\\", shown(text))


def _longest_row(text: str) -> int:
    return max((len(row) for row in re.findall("`+", text)), default=0)


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        command = f"\n\n{fenced(block.command)}" if block.command else ""
        return escape(block.text) + command
    if isinstance(block, Facts):
        return "\n".join(f"- {escape(name)}: {escape(value)}" for name, value in block.items)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Listing):
        return _listing(block)
    if isinstance(block, CauseView):
        return _cause(block)
    return _chart(block)


def _proof(proof: Proof) -> str:
    marks = {"done": "[x]", "open": "[ ]", "failed": "[-]"}
    parts = ["\n".join(f"- {marks[s.state]} {s.name}: {escape(s.text)}" for s in proof.stages)]
    if proof.fix:
        parts.append("What removes it: " + ", ".join(code(change) for change in proof.fix))
    for words, command in proof.steps:
        parts.append(escape(words) + (f":\n\n{fenced(command)}" if command else "."))
    return "\n\n".join(parts)


def _table(table: Table) -> str:
    rules = ["---:" if i in table.numeric else "---" for i in range(len(table.columns))]
    rows = table.rows[:_MOST_FOLDED_ROWS] if table.is_folded else table.rows
    lines = [_row(table.columns), f"| {' | '.join(rules)} |", *(_row(row) for row in rows)]
    left_out = len(table.rows) - len(rows)
    more = f"\n\n{left_out} more rows are in the HTML report." if left_out else ""
    caption = f"{escape(table.caption)}:\n\n" if table.caption else ""
    return caption + "\n".join(lines) + more


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"


def _listing(listing: Listing) -> str:
    width = max(
        (len(str(line.number)) for line in listing.lines if line.number is not None), default=0
    )
    lines = []
    for line in listing.lines:
        mark = ">" if line.is_marked or line.is_own else " "
        number = f"{line.number:>{width}} " if line.number is not None else ""
        lines.append(f"{mark} {number}{line.text}".rstrip())
    caption = f"{escape(listing.caption)}:\n\n" if listing.caption else ""
    return caption + fenced("\n".join(lines))


def _cause(cause: CauseView) -> str:
    before = " before the experiments" if cause.is_settled else ""
    parts = [f"### {escape(cause.title)} ({percent(cause.probability)}{before}, {code(cause.id)})"]
    if cause.evidence_for:
        parts.append("Speaks for it:\n\n" + _cited(cause.evidence_for))
    if cause.evidence_against:
        parts.append("Speaks against it:\n\n" + _cited(cause.evidence_against))
    if cause.remedies:
        rows = []
        for remedy in cause.remedies:
            changes = "".join(f" {code(change)}" for change in remedy.change)
            rows.append(f"- **{escape(remedy.safety)}**: {escape(remedy.title)}{changes}")
        parts.append("What to do:\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _cited(items: list[Cited]) -> str:
    return "\n".join(
        f"- {escape(item.text)}" + (f" ({code(item.source)})" if item.source else "")
        for item in items
    )


def _chart(chart: Chart) -> str:
    table = chart_table(chart)
    return f"### {escape(chart.title)}\n\n{escape(chart.summary)}\n\n" + _table(
        Table(table.columns, table.rows, "", table.numeric)
    )
