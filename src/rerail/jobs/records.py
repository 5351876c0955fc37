"""What a node of a job leaves for the others, as data: hello, beat and goodbye.

In: JSON objects that some machine wrote, or half of one. Out: records in which only what can be
believed has a value. `t_seconds` is on the clock of that node's run (monotonic, 0 at its start).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.platform.os_text import printable

SCHEMA = 1
HELLO, BEAT, GOODBYE = "hello", "beat", "goodbye"
_MOST_ITEMS = 512
_MOST_TEXT = 200
MOST_MEMBERS = 32_768


@dataclass(frozen=True)
class RankState:
    """A rank of the node, as its black box last said."""

    rank: int | None
    step: int = 0
    collective: str | None = None  # that it is in: "all_reduce #412"
    phase: str | None = None
    t_seconds: float | None = None  # of its last progress
    waited_in: str | None = None  # the last collective that it was seen in
    waited_from: float | None = None
    waited_until: float | None = None


@dataclass(frozen=True)
class Heard:
    """The listener read at its own time a stamp that the speaker had written at the speaker's."""

    listener: str
    speaker: str
    listener_t: float
    speaker_t: float

    @property
    def bound(self) -> float:
        return self.listener_t - self.speaker_t


@dataclass(frozen=True)
class LinkChange:
    t_seconds: float
    interface: str
    is_up: bool


@dataclass(frozen=True)
class Member:
    """One node of a job: what it said of itself, and where its record is."""

    node: str
    run: str
    host: str
    node_rank: int | None = None
    rank: int | None = None
    expected: int | None = None
    least: int | None = None
    attempt: int = 1
    began_unix: float = 0.0  # by its own clock
    boot_id: str = ""
    told: dict[str, str] = field(default_factory=dict)
    beat_seconds: float = 2.0
    last_t: float | None = None  # its last sign of life
    last_unix: float | None = None
    age_seconds: float | None = None  # of that sign, when the job was read
    ranks: tuple[RankState, ...] = ()
    links: tuple[LinkChange, ...] = ()
    silences: tuple[tuple[float, float], ...] = ()  # when the job's place could not be reached
    heard: tuple[Heard, ...] = ()
    steps: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)  # by rank
    has_goodbye: bool = False
    ended_t: float | None = None
    outcome_kind: str | None = None
    outcome_summary: str = ""
    folder: Path | None = None  # of its record, where it can be read here

    @property
    def rank_numbers(self) -> list[int]:
        own = [self.rank] if self.rank is not None else []
        return sorted({*own, *(each.rank for each in self.ranks if each.rank is not None)})

    @property
    def step(self) -> int | None:
        steps = [each.step for each in self.ranks if each.step]
        return max(steps, default=None)


def member_of(
    node: str, run: str, hello: Any, beat: Any = None, goodbye: Any = None
) -> Member | None:
    """None for a hello that is none."""
    hello, beat, goodbye = (
        each if isinstance(each, dict) else {} for each in (hello, beat, goodbye)
    )
    if hello.get("schema") != SCHEMA:
        return None
    last = goodbye if goodbye else beat if beat else hello
    source = beat if beat else {}
    return Member(
        node=node,
        run=run,
        host=_text(hello.get("host")) or node,
        node_rank=_whole(hello.get("node_rank")),
        rank=_whole(hello.get("rank")),
        expected=_at_most(MOST_MEMBERS, _whole(hello.get("expected"))),
        least=_whole(hello.get("least")),
        attempt=_whole(hello.get("attempt")) or 1,
        began_unix=(_number(hello.get("unix")) or 0.0) - (_number(hello.get("t")) or 0.0),
        boot_id=_text(hello.get("boot_id")) or "",
        told=_texts(hello.get("told")),
        beat_seconds=_number(hello.get("beat_seconds")) or 2.0,
        last_t=_number(last.get("t")),
        last_unix=_number(last.get("unix")),
        ranks=tuple(_ranks(source.get("ranks"))),
        links=tuple(_links(source.get("links"))),
        silences=tuple(_pairs(source.get("silences"))),
        heard=tuple(_heard(node, source.get("heard"))),
        steps=_steps(source.get("steps")),
        has_goodbye=bool(goodbye),
        ended_t=_number(goodbye.get("t")) if goodbye else None,
        outcome_kind=_text(goodbye.get("outcome")) if goodbye else None,
        outcome_summary=_text(goodbye.get("summary")) or "" if goodbye else "",
    )


def _ranks(value: Any) -> Iterator[RankState]:
    for each in _items(value):
        if isinstance(each, dict):
            yield RankState(
                _whole(each.get("rank")),
                _whole(each.get("step")) or 0,
                _text(each.get("collective")),
                _text(each.get("phase")),
                _number(each.get("t")),
                _text(each.get("waited_in")),
                _number(each.get("waited_from")),
                _number(each.get("waited_until")),
            )


def _links(value: Any) -> Iterator[LinkChange]:
    for each in _items(value):
        if isinstance(each, list) and len(each) == 3:
            t, name = _number(each[0]), _text(each[1])
            if t is not None and name:
                yield LinkChange(t, name, each[2] is True)


def _heard(listener: str, value: Any) -> Iterator[Heard]:
    for speaker, pairs in list(value.items())[:_MOST_ITEMS] if isinstance(value, dict) else ():
        for mine, theirs in _pairs(pairs):
            yield Heard(listener, str(speaker)[:_MOST_TEXT], mine, theirs)


def _steps(value: Any) -> dict[int, tuple[tuple[int, float], ...]]:
    found = {}
    for rank, points in list(value.items())[:_MOST_ITEMS] if isinstance(value, dict) else ():
        if rank.isdecimal() and len(rank) < 10:
            found[int(rank)] = tuple((int(step), t) for step, t in _pairs(points))
    return found


def _pairs(value: Any) -> Iterator[tuple[float, float]]:
    for each in _items(value):
        if isinstance(each, list) and len(each) == 2:
            first, second = _number(each[0]), _number(each[1])
            if first is not None and second is not None:
                yield first, second


def _items(value: Any) -> list[Any]:
    return value[:_MOST_ITEMS] if isinstance(value, list) else []


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(k)[:_MOST_TEXT]: str(v)[:_MOST_TEXT] for k, v in list(value.items())[:32]}


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    return printable(value[:_MOST_TEXT])


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e12 else None  # nor NaN, nor 400 digits


def _at_most(most: int, number: int | None) -> int | None:
    return None if number is None else min(number, most)


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 else None
