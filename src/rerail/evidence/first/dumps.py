"""Who failed first, by the dumps of PyTorch's Flight Recorder.

In: the dumps of the ranks of one job. Out: one `failed-first` observation, or none, and a sentence.
A dump knows what its rank had called, queued and started, and nothing of how it ended.

gloo marks a call that failed as one that returned. Such a call counts as one that its ranks waited
in where it needs all ranks and one has not entered it. Calls between two ranks are left aside:
their numbers are not those of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rerail.evidence.first.model import Actor, ActorStanding, Verdict, Wait, observation
from rerail.evidence.first.rules import Scene
from rerail.evidence.run.call_words import call_in_words, frame_in_words, place_in, ranks_in_words
from rerail.evidence.run.where import where_of
from rerail.evidence.text.flight_dumps import DEFAULT_GROUP, FlightCall, FlightDump
from rerail.records import CollectiveCall, Observation, PythonFrame
from rerail.wording import sentence

_NEED_ALL = (
    *("all_reduce", "barrier", "all_gather", "allgather", "all_to_all", "reduce_scatter"),
    *("_allgather_base", "_all_gather_base", "_reduce_scatter_base", "all_reduce_barrier"),
)


def judge_dumps(dumps: Sequence[FlightDump]) -> tuple[Observation | None, str]:
    """The observation, if there is one, and in any case what the dumps show."""
    scene = _Dumps(sorted(dumps, key=lambda dump: dump.rank))
    verdict = scene.verdict()
    if verdict is not None:
        found = _told(verdict)
        return found, found.text
    waits = scene.waits()
    if not waits or waits[0].call is None:
        return None, "In these dumps no rank waits in a collective."
    group = waits[0].call.group
    text = f"{_named(waits[0].waiting)} had entered {_call(waits[0].call)} and not left it"
    if without := sorted(set(scene.members(group)) - {s.rank for s in scene.actors}):
        text += f"; {ranks_in_words(without)} of its group left no dump here"
    return None, sentence(text)


class _Dumps(Scene[FlightDump]):
    def __init__(self, dumps: Sequence[FlightDump]) -> None:
        super().__init__([_of_dump(dump) for dump in dumps])

    def members(self, group: str) -> set[int]:
        told = {rank for s in self.actors for rank in s.source.members.get(group, ())}
        if not told and group.endswith(DEFAULT_GROUP):
            told = {s.rank for s in self.actors}
        return told | {s.rank for s in self.actors if group in s.source.groups}

    def waits(self) -> list[Wait[FlightDump]]:
        groups = dict.fromkeys(group for s in self.actors for group in s.source.groups)
        found = [wait for group in groups if (wait := self._wait(group)) is not None]
        return sorted(found, key=lambda wait: wait.call.entered_t_seconds if wait.call else 0.0)

    def _wait(self, group: str) -> Wait[FlightDump] | None:
        """The last collective of a group."""
        members = self.members(group)
        here = [s for s in self.actors if s.rank in members]
        top = max(_reached(s, group) for s in here)
        last = {s.rank: call for s in here if (call := s.source.last(group)) is not None}
        at_top = [s for s in here if _reached(s, group) == top]
        waiting = [s for s in at_top if last[s.rank].is_open]
        # A rank whose buffer has lost its oldest calls may have been in this group all the same.
        absent = [s for s in here if s not in at_top and (s.rank in last or s.source.is_whole)]
        absent.sort(key=lambda s: _reached(s, group))
        if not waiting and absent:  # nobody leaves such a call well while one has not come
            waiting = [s for s in at_top if _may_have_failed(last[s.rank])]
        return _wait_of(waiting, absent, last) if waiting else None


def _wait_of(
    waiting: Sequence[ActorStanding[FlightDump]],
    absent: Sequence[ActorStanding[FlightDump]],
    last: Mapping[int, FlightCall],
) -> Wait[FlightDump]:
    call = last[waiting[0].rank].call
    queued = [s for s in waiting if last[s.rank].state == "scheduled"]
    started = [s for s in waiting if last[s.rank].state == "started"]
    if started and queued:
        return Wait(started, call, absent, not_started=queued)
    return Wait(waiting, call, absent)


def _may_have_failed(last: FlightCall) -> bool:
    return last.state == "ended" and last.call.op in _NEED_ALL


def _of_dump(dump: FlightDump) -> ActorStanding[FlightDump]:
    return ActorStanding(Actor("rank", f"rank {dump.rank}", (dump.rank,)), dump, calls=dump.calls)


def _reached(standing: ActorStanding[FlightDump], group: str) -> int:
    last = standing.source.last(group)
    return last.call.sequence if last else 0


def _told(found: Verdict[FlightDump]) -> Observation:
    assert found.first is not None
    dump = found.first.source
    if found.wait is None:
        return _told_of_calls(found, dump)
    wait = found.wait
    assert wait.call is not None
    group = wait.call.group
    last = dump.last(group)
    if wait.absent:
        same = [s for s in wait.absent if _reached(s, group) == _reached(found.first, group)]
        ranks = sorted(s.rank for s in same)
        text = f"{ranks_in_words(ranks)} had not entered {_call(wait.call)}"
        text += f" in which {_named(wait.waiting)} waited"
        if last is not None:
            text += f"; {'its' if len(same) == 1 else 'their'} last was {_call(last.call)}"
    else:
        ranks = [s.rank for s in wait.not_started]
        text = f"{ranks_in_words(ranks)} had queued {_call(wait.call)} and not started it"
        text += f" while {_named(wait.waiting)} waited in it"
    return _observation(found, text, ranks, f"{dump.name}:{last.entry if last else 1}")


def _told_of_calls(found: Verdict[FlightDump], dump: FlightDump) -> Observation:
    call, usual = found.calls[dump.rank], found.calls[found.waiting[0].rank]
    text = f"rank {dump.rank} called {call_in_words(call, usual)}{place_in(call.place)}"
    text += f" while {_named(found.waiting)} called {call_in_words(usual)}{place_in(usual.place)}"
    at = next(one.entry for one in dump.groups[call.group] if one.call is call)
    return _observation(found, text, [dump.rank], f"{dump.name}:{at}", call.place)


def _observation(
    found: Verdict[FlightDump],
    text: str,
    ranks: Sequence[int],
    source: str,
    place: PythonFrame | None = None,
) -> Observation:
    who = Actor("rank", ranks_in_words(ranks), tuple(ranks))
    story = sentence(text)
    more: dict[str, Any] = {
        "rank": ranks[0],
        "reason": text,
        "by": "flight-recorder",
        "others": [],
        "waiting": [s.actor.name for s in found.waiting],
        "story": story.rstrip("."),
    }
    if place is not None:
        more["where"] = {**where_of(place, None), "process": who.name}
    return observation(replace(found, who=who), story, source, **more)


def _named(ranks: Sequence[ActorStanding[FlightDump]]) -> str:
    return ranks_in_words([s.rank for s in ranks])


def _call(call: CollectiveCall) -> str:
    """ "all_reduce #1,204 (train.py:88 step)"."""
    return call_in_words(call) + (f" ({frame_in_words(call.place)})" if call.place else "")
