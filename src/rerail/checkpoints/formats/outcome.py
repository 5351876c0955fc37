"""What a reader says of a file: what it is, why it would not load, or what it did not look at."""

from __future__ import annotations

from dataclasses import dataclass


class Torn(Exception):
    """Why a checkpoint would not load or must not, as half a sentence: "the archive ends early"."""


class Unfinished(Exception):
    """What was not looked at, and why, as half a sentence. Not a word about what is in it."""


@dataclass(frozen=True)
class Reading:
    """A file in which nothing wrong was found."""

    kind: str
    unchecked: str | None = None  # what could not be looked at
    foreign: frozenset[str] = frozenset()  # classes of the program's own that loading would call
