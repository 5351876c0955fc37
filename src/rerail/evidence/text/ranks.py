"""Which rank or node failed first, when several wrote the same log or a log each?

In: what was matched and raised, each with its stream. Out: the first to fail, and those whose
messages are only its echo. Time stamps decide where all have them; else the order of the lines,
with messages that only report another's end left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """None when fewer than two streams are in trouble, or none of them with more than an echo."""
    first_of: dict[str, Trouble] = {}
    for trouble in troubles:
        if not trouble.who:
            continue
        known = first_of.get(trouble.who)
        if known is None or (known.is_echo and not trouble.is_echo):
            first_of[trouble.who] = trouble
    if len(first_of) < 2:
        return None
    own = [trouble for trouble in first_of.values() if not trouble.is_echo]
    pool = own or list(first_of.values())
    has_stamps = all(trouble.stamp is not None for trouble in pool)
    first = min(
        pool,
        key=lambda one: (one.stamp if has_stamps else 0.0, one.log, one.position),
    )
    others = tuple(sorted(who for who in first_of if who != first.who))
    by = "time" if has_stamps else "structure"
    return FirstFailure(first.who, others, first.position, first.text, by)


def launcher_root(texts: Sequence[str]) -> int | None:
    """The rank that torchrun names as the first observed failure."""
    for at, text in enumerate(texts):
        if _ROOT.search(text):
            for following in texts[at + 1 : at + 8]:
                if match := _RANK.match(following):
                    return int(match.group(1))
    return None
