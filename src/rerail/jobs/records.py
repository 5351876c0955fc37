"""What a node of a job leaves for the others, as data: hello, beat and goodbye.

In: JSON objects that some machine wrote, or half of one. Out: records in which only what can be
believed has a value. `t_seconds` is on the clock of that node's run (monotonic, 0 at its start).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.bounded import Count, Time
from rerail.platform.os_text import printable
from rerail.store import checks_of, decoder_of, fits, observed

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


_SAID = checks_of(
    {
        **dict.fromkeys(("node_rank", "rank", "expected", "least", "attempt", "step"), Count),
        **dict.fromkeys(("t", "unix", "beat_seconds", "waited_from", "waited_until"), Time),
        **dict.fromkeys(("host", "boot_id", "outcome", "summary"), str),
        **dict.fromkeys(("collective", "phase", "waited_in"), str),
        **dict.fromkeys(("told", "heard", "steps"), dict[str, Any]),
        **dict.fromkeys(("ranks", "links", "silences"), list[Any]),
    }
)
_PAIR, _LINK = decoder_of(tuple[Time, Time]), decoder_of(tuple[Time, str, bool])


def member_of(
    node: str, run: str, hello: Any, beat: Any = None, goodbye: Any = None
) -> Member | None:
    """None for a hello that is none."""
    hello, beat, goodbye = (_said(each) for each in (hello, beat, goodbye))
    if hello.get("schema") != SCHEMA:
        return None
    last = goodbye or beat or hello
    expected = hello.get("expected")
    return Member(
        node=node,
        run=run,
        host=_text(hello.get("host")) or node,
        node_rank=hello.get("node_rank"),
        rank=hello.get("rank"),
        expected=None if expected is None else min(expected, MOST_MEMBERS),
        least=hello.get("least"),
        attempt=hello.get("attempt") or 1,
        began_unix=(hello.get("unix") or 0.0) - (hello.get("t") or 0.0),
        boot_id=_text(hello.get("boot_id")) or "",
        told=_texts(hello.get("told")),
        beat_seconds=hello.get("beat_seconds") or 2.0,
        last_t=last.get("t"),
        last_unix=last.get("unix"),
        ranks=tuple(_rank(each) for each in _dicts(beat.get("ranks"))),
        links=tuple(_links(beat.get("links"))),
        silences=tuple(_pairs(beat.get("silences"))),
        heard=tuple(_heard(node, beat.get("heard"))),
        steps=_steps(beat.get("steps")),
        has_goodbye=bool(goodbye),
        ended_t=goodbye.get("t"),
        outcome_kind=_text(goodbye.get("outcome")),
        outcome_summary=_text(goodbye.get("summary")) or "",
    )


def _said(value: Any) -> dict[str, Any]:
    return observed(dict(value), _SAID) if isinstance(value, dict) else {}


def _dicts(value: list[Any] | None) -> Iterator[dict[str, Any]]:
    for each in (value or [])[:_MOST_ITEMS]:
        if isinstance(each, dict):
            yield _said(each)


def _rank(told: dict[str, Any]) -> RankState:
    return RankState(
        told.get("rank"),
        told.get("step") or 0,
        _text(told.get("collective")),
        _text(told.get("phase")),
        told.get("t"),
        _text(told.get("waited_in")),
        told.get("waited_from"),
        told.get("waited_until"),
    )


def _links(value: list[Any] | None) -> Iterator[LinkChange]:
    for each in (value or [])[:_MOST_ITEMS]:
        if fits(_LINK, each) and (name := _text(each[1])):
            yield LinkChange(each[0], name, each[2])


def _heard(listener: str, value: dict[str, Any] | None) -> Iterator[Heard]:
    for speaker, pairs in list((value or {}).items())[:_MOST_ITEMS]:
        for mine, theirs in _pairs(pairs):
            yield Heard(listener, speaker[:_MOST_TEXT], mine, theirs)


def _steps(value: dict[str, Any] | None) -> dict[int, tuple[tuple[int, float], ...]]:
    found = {}
    for rank, points in list((value or {}).items())[:_MOST_ITEMS]:
        if rank.isdecimal() and len(rank) < 10:
            found[int(rank)] = tuple((int(step), t) for step, t in _pairs(points))
    return found


def _pairs(value: Any) -> Iterator[tuple[float, float]]:
    for each in value[:_MOST_ITEMS] if isinstance(value, list) else ():
        if fits(_PAIR, each):
            yield float(each[0]), float(each[1])


def _texts(value: dict[str, Any] | None) -> dict[str, str]:
    return {k[:_MOST_TEXT]: str(v)[:_MOST_TEXT] for k, v in list((value or {}).items())[:32]}


def _text(value: str | None) -> str | None:
    return printable(value[:_MOST_TEXT]) if value else None
