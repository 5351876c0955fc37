"""Who failed first, by the lines of one log into which several wrote, or of a few logs.

In: what was matched and raised, each with its stream. Out: the first to fail, and those whose
messages are only its echo. Time stamps decide where all have them; else the order of the lines,
with messages that only report another's end left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.evidence.first.model import Actor, ActorStanding
from rerail.evidence.first.rules import Scene
from rerail.platform.patterns import linear

ECHO_TYPES = frozenset(
    {"ChildFailedError", "ProcessExitedException", "ProcessRaisedException", "SignalException"}
)
# What is raised where a connection, a pipe or a child is gone; why it is gone is somebody else's.
SAYS_GONE = linear(r"EOFError|Empty|TimeoutError|CalledProcessError|Broken\w+|Connection\w+Error")
_ROOT = linear(r"Root Cause \(first observed failure\)")
_RANK = linear(r"^\s*rank\s*:\s*(\d{1,9})")


@dataclass(frozen=True)
class Trouble:
    """One sign of failure: whose, where, when, and whether it only reports another's end."""

    who: str
    position: int
    stamp: float | None
    is_echo: bool
    text: str
    log: int = 0  # which of several logs it stands in


@dataclass(frozen=True)
class FirstFailure:
    who: str
    others: tuple[str, ...]
    position: int
    text: str
    by: str  # time, structure, launcher


def find_first(troubles: Sequence[Trouble]) -> FirstFailure | None:
    """None when fewer than two streams are in trouble."""
    first_of: dict[str, Trouble] = {}
    for trouble in troubles:
        known = first_of.get(trouble.who)
        if trouble.who and (known is None or (known.is_echo and not trouble.is_echo)):
            first_of[trouble.who] = trouble
    verdict = Scene([_standing(trouble) for trouble in first_of.values()]).verdict()
    if len(first_of) < 2 or verdict is None or verdict.first is None:
        return None
    others = tuple(sorted(who for who in first_of if who != verdict.who.name))
    said = verdict.first.source
    return FirstFailure(said.who, others, said.position, said.text, verdict.by)


def _standing(trouble: Trouble) -> ActorStanding[Trouble]:
    return ActorStanding(
        Actor("writer", trouble.who),
        trouble,
        how="raised",
        t=trouble.stamp,
        place=(trouble.log, trouble.position),
        is_echo=trouble.is_echo,
    )


def launcher_root(texts: Sequence[str]) -> int | None:
    """The rank that torchrun names as the first observed failure."""
    for at, text in enumerate(texts):
        if _ROOT.search(text):
            for following in texts[at + 1 : at + 8]:
                if match := _RANK.match(following):
                    return int(match.group(1))
    return None
