"""Where in a group's sequence of collectives do the ranks disagree, and which of them is odd?

In: the calls of each rank. Out: the first place at which not all made the same call, and who left
what they did before. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rerail.records import CollectiveCall

MOST_PERIOD = 9
# Their argument has one size on every rank; others may have a list on one rank alone.
_ONE_SIZE = ("all_reduce", "broadcast", "reduce")
_BETWEEN_TWO = ("send", "recv")


class Caller(Protocol):
    """A rank and its last calls, from its black box or from its Flight Recorder."""

    @property
    def rank(self) -> int: ...

    @property
    def calls(self) -> Sequence[CollectiveCall]: ...


def first_disagreement(
    stories: Sequence[Caller],
) -> tuple[int, dict[int, CollectiveCall]] | None:
    """The odd rank, and the calls of all ranks at this place of the sequence."""
    made: dict[tuple[str, int], dict[int, CollectiveCall]] = {}
    for story in stories:
        for call in story.calls:
            if call.op not in (*_BETWEEN_TWO, "gradients"):
                made.setdefault((call.group, call.sequence), {})[story.rank] = call
    for (group, sequence), calls in sorted(made.items(), key=lambda item: item[0][1]):
        if len({_key(call) for call in calls.values()}) > 1:
            return _odd_one(stories, group, sequence, calls), calls
    return None


def _key(call: CollectiveCall) -> tuple[str, tuple[int, ...]]:
    return call.op, tuple(call.shape) if call.op in _ONE_SIZE else ()


def _odd_one(
    stories: Sequence[Caller], group: str, sequence: int, calls: dict[int, CollectiveCall]
) -> int:
    """The one that is alone with its call; of two, the one that left what they did before."""
    kinds = [_key(call) for call in calls.values()]
    votes = sorted(calls, key=lambda rank: (kinds.count(_key(calls[rank])), rank))
    least, most = kinds.count(_key(calls[votes[0]])), kinds.count(_key(calls[votes[-1]]))
    if least < most:
        return votes[0]
    expected = _expected(stories, group, sequence)
    strangers = [rank for rank in votes if expected and _key(calls[rank]) != expected]
    if len(strangers) == 1:
        return strangers[0]
    known = {(*_key(c), c.place) for s in stories for c in s.calls if c.sequence < sequence}
    new = [rank for rank in votes if (*_key(calls[rank]), calls[rank].place) not in known]
    return new[0] if new else votes[0]


def _expected(
    stories: Sequence[Caller], group: str, sequence: int
) -> tuple[str, tuple[int, ...]] | None:
    """What the calls before would repeat, if they do."""
    before = {
        c.sequence: _key(c)
        for s in stories
        for c in s.calls
        if c.group == group and c.sequence < sequence
    }
    for period in range(1, MOST_PERIOD + 1):
        pairs = [(n, n - period) for n in before if n - period in before]
        if len(pairs) >= period and all(before[a] == before[b] for a, b in pairs):
            return before.get(sequence - period)
    return None
