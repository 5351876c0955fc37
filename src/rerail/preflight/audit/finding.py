"""One line of the answer: what was looked at, how it stands, why, and what to type.

`id` is the catalogue's id of the cause that the finding foretells, where there is one, so that the
same word names the danger before the run and the cause after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["fatal", "risky", "fine"]
LEVELS: tuple[Level, ...] = ("fatal", "risky", "fine")


@dataclass(frozen=True)
class Finding:
    id: str
    level: Level
    title: str
    why: str = ""
    do: tuple[str, ...] = ()  # what to type or change, the best first
    where: tuple[str, ...] = ()  # paths, variables, lines: where it can be seen again
    fix: tuple[str, ...] = ()  # shell lines that change no result: for `--fix`
    source: str = ""  # where the knowledge is from

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "level": self.level,
            "title": self.title,
            "why": self.why,
            "do": list(self.do),
            "where": list(self.where),
            "fix": list(self.fix),
            "source": self.source,
        }


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Fatal first; within a level in the order in which they were found."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def is_bad(finding: Finding) -> bool:
    return finding.level != "fine"
