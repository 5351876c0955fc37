"""The answer as lines that a person reads: one per finding, why and what to type below the bad.

In: findings, and a memory plan where there is one. Out: (style, text) pairs, wrapped. Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rerail.preflight.audit.finding import Finding
from rerail.wording import bytes_in_words, cut

if TYPE_CHECKING:
    from rerail.preflight.memory.plan import MemoryPlan
    from rerail.preflight.memory.what_if import WhatIf

STYLES = {"fatal": "bold red", "risky": "yellow", "fine": "green"}
_INDENT = " " * 7
Line = tuple[str, str, str]  # style, the word in front, the rest


def finding_lines(findings: Iterable[Finding], width: int) -> list[Line]:
    lines: list[Line] = []
    for finding in findings:
        lines += _wrapped(finding.level.ljust(7), finding.title, width, STYLES[finding.level])
        if finding.level == "fine":
            continue
        if finding.why:
            lines += _wrapped(_INDENT, finding.why, width)
        for action in finding.do:
            lines += _wrapped(_INDENT, f"→ {action}", width, hanging=2)
    return lines


def _wrapped(front: str, text: str, width: int, style: str = "", hanging: int = 0) -> list[Line]:
    pieces = textwrap.wrap(
        text,
        max(20, width - len(front)),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [
        (style if at == 0 else "", front if at == 0 else " " * len(front), piece)
        for at, piece in enumerate(pieces or [""])
    ]


def plan_lines(plan: MemoryPlan, what_ifs: Sequence[WhatIf], width: int) -> list[Line]:
    """The table by component, its sum, the limit, and what other values would take."""
    predicted = plan.prediction
    lines: list[Line] = [("", "", ""), ("bold", "Memory of the whole run, predicted", "")]
    for component in plan.components:
        front = f"{bytes_in_words(component.size_bytes):>10}  {component.name:<30} "
        lines.append(("", front, cut(component.note, max(0, width - len(front)))))
    off = max(predicted.high_bytes - predicted.peak_bytes, 0)
    front = f"{bytes_in_words(predicted.peak_bytes):>10}  at the peak, ± {bytes_in_words(off)}"
    lines.append(("bold", front, ""))
    if plan.room_bytes is not None:
        source = "this machine" if plan.limit_source == "ram" else plan.limit_source
        lines.append(("", f"{bytes_in_words(plan.room_bytes):>10}  ", f"free now: {source}"))
    largest = plan.largest_batch_size
    if largest:
        lines.append(("", f"{largest:>10}  ", "the largest batch size that fits into that"))
    for each in what_ifs:
        lines += _wrapped(" " * 12, each.in_one_line(), width)
    return lines


def summary(findings: Sequence[Finding]) -> str:
    fatal = sum(finding.level == "fatal" for finding in findings)
    risky = sum(finding.level == "risky" for finding in findings)
    if fatal:
        return f"{fatal} fatal, {risky} risky: as it stands, the run will not survive."
    if risky:
        return f"{risky} risky, nothing fatal."
    return "Nothing fatal, nothing risky."
