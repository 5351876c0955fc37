"""Who is told while a study is at work, and what it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StudyOptions:
    jobs: int | None = None  # None: as the file says
    scheduler: str = "local"
    only: tuple[str, ...] = ()  # names of cells; empty: all
    tries_failed_again: bool = False


class StudyWatcher(Protocol):
    def said(self, text: str) -> None:
        """One line about the study as a whole."""

    def cell(self, name: str, text: str) -> None:
        """One line about one cell."""


class Silent:
    """Nobody is told."""

    def said(self, text: str) -> None:
        pass

    def cell(self, name: str, text: str) -> None:
        pass
