"""Which rank failed first, by the dumps of PyTorch's Flight Recorder?

In: the dumps of the ranks of one job. Out: one `failed-first` observation, or none, and a sentence.
In this order, as for black boxes (ranks.py):

1. at the same place of a group's sequence a rank made another call, or one of another size
2. a rank has not entered the collective that others of its group wait in; of several groups the one
   whose absent rank does not itself wait in another one
3. all have entered it, and one has not started it on its device while others have

gloo marks a call that failed as one that returned. Such a call counts as one that its ranks waited
in where it needs all ranks and one has not entered it.

Calls between two ranks are left aside: their numbers are not those of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerail.evidence.run.call_words import call_in_words, frame_in_words, place_in, ranks_in_words
from rerail.evidence.run.rank_sequence import first_disagreement
from rerail.evidence.run.where import where_of
from rerail.evidence.text.flight_dumps import DEFAULT_GROUP, FlightCall, FlightDump
from rerail.records import Observation
from rerail.wording import sentence

_NEED_ALL = (
    *("all_reduce", "barrier", "all_gather", "allgather", "all_to_all", "reduce_scatter"),
    *("_allgather_base", "_all_gather_base", "_reduce_scatter_base", "all_reduce_barrier"),
)


@dataclass(frozen=True)
class _Wait:
    """The last collective of a group: who waits in it, and who has not come."""

    group: str
    last: FlightCall
    waiting: list[FlightDump]
    absent: list[FlightDump]
    not_started: list[FlightDump]
    without_dump: list[int]


def judge_dumps(dumps: Sequence[FlightDump]) -> tuple[Observation | None, str]:
    """The observation, if there is one, and in any case what the dumps show."""
    dumps = sorted(dumps, key=lambda dump: dump.rank)
    if len(dumps) > 1 and (odd := _mismatch(dumps)) is not None:
        return odd, odd.text
    waits = [wait for group in _groups(dumps) if (wait := _wait(group, dumps)) is not None]
    waits.sort(key=lambda wait: wait.last.call.entered_t_seconds)
    if not waits:
        return None, "In these dumps no rank waits in a collective."
    held = {dump.rank for wait in waits for dump in wait.waiting}
    absences = [wait for wait in waits if wait.absent]
    free = [w for w in absences if any(dump.rank not in held for dump in w.absent)]
    if absences:
        found = _absent((free or absences)[0], held)
        return found, found.text
    for wait in waits:
        if wait.not_started:
            found = _not_started(wait)
            return found, found.text
    wait = waits[0]
    text = f"{_who(wait)} had entered {_call(wait.last)} and not left it"
    if wait.without_dump:
        text += f"; {ranks_in_words(wait.without_dump)} of its group left no dump here"
    return None, sentence(text)


def _groups(dumps: Sequence[FlightDump]) -> list[str]:
    return list(dict.fromkeys(group for dump in dumps for group in dump.groups))


def _mismatch(dumps: Sequence[FlightDump]) -> Observation | None:
    found = first_disagreement(dumps)
    if found is None:
        return None
    odd, calls = found
    others = [rank for rank in calls if rank != odd]
    call, usual = calls[odd], calls[others[0]]
    text = f"rank {odd} called {call_in_words(call, usual)}{place_in(call.place)}"
    text += f" while {ranks_in_words(others)} called {call_in_words(usual)}{place_in(usual.place)}"
    dump = next(dump for dump in dumps if dump.rank == odd)
    at = next(one.entry for one in dump.groups[call.group] if one.call is call)
    where = {**where_of(call.place, None), "process": f"rank {odd}"} if call.place else None
    return _observation(text, "mismatch", odd, others, f"{dump.name}:{at}", where)


def _wait(group: str, dumps: Sequence[FlightDump]) -> _Wait | None:
    members = _members(group, dumps)
    here = [dump for dump in dumps if dump.rank in members]
    lasts = {dump.rank: last for dump in here if (last := dump.last(group)) is not None}
    top = max(last.call.sequence for last in lasts.values())
    at_top = [d for d in here if d.rank in lasts and lasts[d.rank].call.sequence == top]
    waiting = [dump for dump in at_top if lasts[dump.rank].is_open]
    # A rank whose buffer has lost its oldest calls may have been in this group all the same.
    absent = [d for d in here if d not in at_top and (d.rank in lasts or d.is_whole)]
    if not waiting and absent:  # nobody leaves such a call well while one has not come
        failed = [d for d in at_top if lasts[d.rank].state == "ended"]
        waiting = [d for d in failed if lasts[d.rank].call.op in _NEED_ALL]
    if not waiting:
        return None
    absent.sort(key=lambda d: lasts[d.rank].call.sequence if d.rank in lasts else 0)
    states = {dump.rank: lasts[dump.rank].state for dump in waiting}
    queued = [dump for dump in waiting if states[dump.rank] == "scheduled"]
    started = [dump for dump in waiting if states[dump.rank] == "started"]
    known = {dump.rank for dump in dumps}
    return _Wait(
        group,
        lasts[waiting[0].rank],
        started if started and queued else waiting,
        absent,
        queued if started else [],
        [rank for rank in members if rank not in known],
    )


def _members(group: str, dumps: Sequence[FlightDump]) -> tuple[int, ...]:
    told = {rank for dump in dumps for rank in dump.members.get(group, ())}
    if not told and group.endswith(DEFAULT_GROUP):
        told = {dump.rank for dump in dumps}
    return tuple(sorted(told | {dump.rank for dump in dumps if group in dump.groups}))


def _absent(wait: _Wait, held: set[int]) -> Observation:
    absent = [dump for dump in wait.absent if dump.rank not in held] or wait.absent
    first = absent[0]
    before = first.last(wait.group)
    same = [d for d in absent if _sequence(d, wait.group) == _sequence(first, wait.group)]
    ranks = sorted(dump.rank for dump in same)
    text = (
        f"{ranks_in_words(ranks)} had not entered {_call(wait.last)} in which {_who(wait)} waited"
    )
    if before is not None:
        own = "its" if len(same) == 1 else "their"
        text += f"; {own} last was {_call(before)}"
    source = f"{first.name}:{before.entry if before else 1}"
    return _observation(text, "never-entered", ranks, _ranks(wait.waiting), source)


def _not_started(wait: _Wait) -> Observation:
    ranks = _ranks(wait.not_started)
    text = f"{ranks_in_words(ranks)} had queued {_call(wait.last)} and not started it"
    text += f" while {_who(wait)} waited in it"
    first = wait.not_started[0]
    last = first.last(wait.group)
    source = f"{first.name}:{last.entry if last else 1}"
    return _observation(text, "never-entered", ranks, _ranks(wait.waiting), source)


def _sequence(dump: FlightDump, group: str) -> int:
    last = dump.last(group)
    return last.call.sequence if last else 0


def _ranks(dumps: Sequence[FlightDump]) -> list[int]:
    return [dump.rank for dump in dumps]


def _who(wait: _Wait) -> str:
    return ranks_in_words(_ranks(wait.waiting))


def _call(found: FlightCall) -> str:
    """ "all_reduce #1,204 (train.py:88 step)"."""
    place = found.call.place
    return call_in_words(found.call) + (f" ({frame_in_words(place)})" if place else "")


def _observation(
    text: str,
    how: str,
    first: int | Sequence[int],
    waiting: Sequence[int],
    source: str,
    where: dict[str, Any] | None = None,
) -> Observation:
    ranks = [first] if isinstance(first, int) else list(first)
    story = sentence(text)
    data: dict[str, Any] = {
        "who": ranks_in_words(ranks),
        "rank": ranks[0],
        "reason": text,
        "how": how,
        "by": "flight-recorder",
        "others": [],
        "waiting": [f"rank {rank}" for rank in waiting],
        "story": story.rstrip("."),
    }
    return Observation("failed-first", story, source, data | ({"where": where} if where else {}))
