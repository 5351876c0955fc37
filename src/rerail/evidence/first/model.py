"""One model of the first failure: an actor, how it stood, and the verdict.

Every source of evidence says the same kinds of things about the actors of a job: who they are, how
each one ended and when, what it waited in, and whether it only lost another one. An adapter (lines,
logs, boxes, dumps, ray; of nodes jobs/who_first.py) says them as `ActorStanding`s, the rules of
rules.py give a `Verdict`, and the adapter puts it into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rerail.evidence.first.words import FAILURES
from rerail.records import CollectiveCall, Observation

T = TypeVar("T")  # what an adapter has read a standing from


@dataclass(frozen=True)
class Actor:
    kind: str  # rank, node, worker, launcher, writer (of lines in a log)
    name: str
    ranks: tuple[int, ...] = ()  # several, where nothing tells them apart


@dataclass(frozen=True)
class ActorStanding(Generic[T]):
    """How an actor stood when the job died."""

    actor: Actor
    source: T
    how: str = ""  # of HOWS, by its own end; "": it has not ended, or nobody saw how
    t: float | None = None  # of its end, on a clock that all share; None: there is none
    doubt: float = 0.0  # seconds by which `t` may be wrong
    latest_t: float | None = None  # of a lost actor: by when it can have been lost
    place: tuple[float, ...] = ()  # where there is no clock, the smaller one is earlier
    is_echo: bool = False  # it ended because another one was gone
    has_waited: bool = False  # it ended because it gave up waiting, or was given a wrong answer
    was_ended: bool = False  # by a launcher, a scheduler or a person
    world_size: int | None = None  # how many ranks it was told of
    calls: Sequence[CollectiveCall] = ()
    shown_by: str = ""  # words, launcher, peers, collectives, silence, missing-log; "": a record

    @property
    def rank(self) -> int:
        return self.actor.ranks[0]

    @property
    def has_failed(self) -> bool:
        return self.how in FAILURES

    @property
    def failed_by_itself(self) -> bool:
        return self.has_failed and not (self.is_echo or self.has_waited or self.was_ended)


@dataclass(frozen=True)
class Wait(Generic[T]):
    """The last collective of a group: who waits in it, and who does not."""

    waiting: Sequence[ActorStanding[T]]
    call: CollectiveCall | None = None  # as the first of those who wait made it
    absent: Sequence[ActorStanding[T]] = ()  # have not entered it; the furthest behind first
    late: Sequence[ActorStanding[T]] = ()  # came when others had given up; the latest first
    not_started: Sequence[ActorStanding[T]] = ()  # have queued it; their device has not begun


@dataclass(frozen=True)
class Verdict(Generic[T]):
    """Who failed first, and how: one of HOWS."""

    who: Actor
    how: str
    first: ActorStanding[T] | None = None  # None: nothing is known of it but who it is
    others: Sequence[ActorStanding[T]] = ()  # ended badly too
    waiting: Sequence[ActorStanding[T]] = ()  # kept from going on by the first
    wait: Wait[T] | None = None  # in which collective
    calls: dict[int, CollectiveCall] = field(default_factory=dict)  # by rank, where they differ
    by: str = "structure"  # or time
    is_certain: bool = True  # False: within what is not known about the clocks

    @property
    def is_failure(self) -> bool:
        """Whether it failed by itself; else it only kept the others from going on."""
        return self.how in FAILURES

    @property
    def t(self) -> float | None:
        return self.first.t if self.first is not None else None

    @property
    def shown_by(self) -> str:
        return self.first.shown_by if self.first is not None else ""


def observation(verdict: Verdict[Any], text: str, source: str, **more: Any) -> Observation:
    """Return the observation by which readers and causes know the verdict."""
    data = {"who": verdict.who.name, "actor": verdict.who.kind, "how": verdict.how, **more}
    return Observation("failed-first", text, source, data)
