"""The safe changes as a shell snippet, written and never run.

In: findings. Out: text for a file that a person reads and sources. Only what changes no result is
in it: limits and variables, never an installation.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rerail.preflight.audit.finding import Finding

NAME = "rerail-fix"


def snippet(findings: Iterable[Finding]) -> str:
    """ "" where there is nothing that could be changed safely."""
    lines: list[str] = []
    for finding in findings:
        new = [line for line in finding.fix if line not in lines]
        if new:
            lines += [f"# {finding.title}", *new]
    if not lines:
        return ""
    return "\n".join(["# Read it, then: source this file in the shell of the run.", *lines, ""])


def write(text: str, folder: Path) -> Path:
    """Into a file that was not there before."""
    number = 1
    while True:
        path = folder / (f"{NAME}.sh" if number == 1 else f"{NAME}-{number}.sh")
        try:
            with path.open("x") as file:
                file.write(text)
            return path
        except FileExistsError:
            number += 1
