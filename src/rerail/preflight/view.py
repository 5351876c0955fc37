"""The answer as lines that a person reads: one per finding, why and what to type below the bad.

In: findings, and a memory plan where there is one. Out: (style, text) pairs, wrapped. Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rerail.preflight.finding import Finding

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
        (style if at == 0 else "", front if at == 0 else _INDENT, piece)
        for at, piece in enumerate(pieces or [""])
    ]


def summary(findings: Sequence[Finding]) -> str:
    fatal = sum(finding.level == "fatal" for finding in findings)
    risky = sum(finding.level == "risky" for finding in findings)
    if fatal:
        return f"{fatal} fatal, {risky} risky: as it stands, the run will not survive."
    if risky:
        return f"{risky} risky, nothing fatal."
    return "Nothing fatal, nothing risky."
