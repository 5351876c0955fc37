"""Which rank failed first?

In: what happened to each rank, on one clock (rank_stories.py). Out: one `failed-first` observation
when two or more ranks are known and one of them kept the others from going on.

Who complains first is seldom who failed first: a rank that waits in vain says so, while the one
that it waits for says nothing. So the ranks are compared by where they stand in the sequence of
collectives, in this order (docs/design/which-rank-failed-first.md):

0. the launcher was killed before any rank had failed
1. somebody failed by itself: an exception, a crash, a kill, in time before those who waited for it;
   not inside a collective at which, or before which, the calls of the ranks began to differ
2. somebody was told of another number of ranks, or made another call than the others at the same
   place of the sequence
3. somebody has not entered the collective that the others waited in: it left with 0, it came late,
   or it was stuck elsewhere, and then its stack says where
4. the earliest end that is no echo

A rank that was terminated by the launcher never counts as first by rule 1 or 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rerail.evidence.run.call_words import MOST_NAMED, call_in_words, place_in, ranks_in_words
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.rank_sequence import first_disagreement
from rerail.evidence.run.rank_stories import (
    ENDED_BY_OTHERS,
    RankStory,
    members,
    rank_stories,
    seen_in,
)
from rerail.evidence.run.where import where_of
from rerail.records import CollectiveCall, Observation, ProcessRecord, PythonFrame
from rerail.wording import counted, listed, seconds_in_words, sentence

NOTICED_LATER_SECONDS = 3.0  # an end is seen later than the peers see their connection close
SHORTEST_WAIT_SECONDS = 5.0  # less is a step like others


@dataclass(frozen=True)
class First:
    story: RankStory
    kind: str  # failed, elsewhere, world, left, late, stuck
    t_seconds: float
    reason: str  # what it did, after its name
    waiting: list[RankStory] = field(default_factory=list)  # in a collective that it did not enter
    call: CollectiveCall | None = None  # which one, as one of them made it
    where: PythonFrame | None = None

    @property
    def is_failure(self) -> bool:
        return self.kind == "failed"


def read_failed_first(run: RecordedRun) -> list[Observation]:
    stories = rank_stories(run)
    outcome = run.info.outcome
    # A script that only waits for its ranks ends with 0 whatever became of them.
    all_well = all(story.failed_t_seconds is None for story in stories)
    if len(stories) < 2 or (outcome is not None and outcome.kind == "ok" and all_well):
        return []
    if (launcher := _launcher(run, stories)) is not None:
        return [_of_launcher(launcher, stories)]
    first = _failed_by_itself(stories) or _of_another_world(stories) or _elsewhere(stories)
    first = first or _missing(run, stories) or _earliest(stories)
    return [_observation(first, stories)] if first is not None else []


def _launcher(run: RecordedRun, stories: Sequence[RankStory]) -> ProcessRecord | None:
    """It died by itself, before any rank failed."""
    parents = {story.process.parent_pid for story in stories}
    for process in run.processes:
        is_one = process.pid in parents and run.rank_of(process) is None
        died = process.signal is not None and process.signal not in ENDED_BY_OTHERS
        if is_one and died and process.ended_t_seconds is not None:
            failed = [_failed_at(s) for s in stories if s.failed_by_itself]
            if process.ended_t_seconds < min(failed, default=float("inf")):
                return process
    return None


def _of_launcher(process: ProcessRecord, stories: Sequence[RankStory]) -> Observation:
    who = "main process" if process.role == "main" else "launcher"
    reason = f"killed by {process.signal}"
    t_seconds = process.ended_t_seconds or 0.0
    text = (
        f"the {who} (pid {process.pid}) was {reason} {seconds_in_words(t_seconds)} after the start"
    )
    text += f"; the end of {_named(stories)} is an echo of it"
    data = {
        "who": who,
        "rank": None,
        "pid": process.pid,
        "reason": reason,
        "how": "failed",
        "others": [story.name for story in stories],
        "waiting": [],
        "t_seconds": t_seconds,
        "story": None,
    }
    return Observation("failed-first", sentence(text), f"exit:{process.pid}", data)


def _of_another_world(stories: Sequence[RankStory]) -> First | None:
    """It waited for another number of ranks than there are."""
    told = [s for s in stories if s.box is not None and s.box.world_size]
    worlds = [s.box.world_size for s in told if s.box]
    wrong = [s for s in told if s.box and s.box.world_size != len(stories)]
    if len(set(worlds)) < 2 or len(wrong) != 1:
        return None
    story = wrong[0]
    size = story.box.world_size if story.box else 0
    others = [s for s in stories if s is not story]
    reason = f"was told that there are {size} ranks"
    t_seconds = min(_failed_at(s) for s in stories)
    first = First(story, "world", t_seconds, reason, others)
    return first if t_seconds != float("inf") else None


def _failed_by_itself(stories: Sequence[RankStory]) -> First | None:
    own = [s for s in stories if s.failed_by_itself and not _failed_in_disagreement(s, stories)]
    if not own:
        return None
    story = min(own, key=_failed_at)
    given_up = [s for s in stories if s.has_waited or s.is_echo]
    if given_up and min(map(_failed_at, given_up)) + NOTICED_LATER_SECONDS < _failed_at(story):
        return None  # it failed because of those who had failed before
    return First(story, "failed", _failed_at(story), story.reason)


def _failed_in_disagreement(story: RankStory, stories: Sequence[RankStory]) -> bool:
    """Whether it ended inside a collective after the ranks had begun to make different calls.

    Which rank is told of a disagreement first, and in which words, depends on whose message
    arrives first. So such an end is an echo whatever its words are, also if no words are on record.
    """
    call = story.open_call
    found = first_disagreement(stories) if call is not None else None
    if call is None or found is None:
        return False
    first = next(iter(found[1].values()))
    return first.group == call.group and first.sequence <= call.sequence


def _earliest(stories: Sequence[RankStory]) -> First | None:
    """By time alone, where nothing is known of the collectives."""
    ends = [s for s in stories if s.failed_t_seconds is not None and not s.was_terminated]
    if not ends:
        return None
    story = min(ends, key=lambda s: (s.is_echo, _failed_at(s)))
    return First(story, "failed", _failed_at(story), story.reason)


def _failed_at(story: RankStory) -> float:
    return story.failed_t_seconds if story.failed_t_seconds is not None else float("inf")


def _elsewhere(stories: Sequence[RankStory]) -> First | None:
    """It made another call than the others at the same place of the sequence."""
    found = first_disagreement(stories)
    if found is None:
        return None
    odd, calls = found
    by_rank = {story.rank: story for story in stories}
    others = [by_rank[rank] for rank in calls if rank != odd]
    call, usual = calls[odd], calls[others[0].rank]
    reason = f"called {call_in_words(call, usual)}{place_in(call.place)}"
    began = call.entered_t_seconds
    return First(by_rank[odd], "elsewhere", began, reason, others, usual, call.place)


# ---- rule 3: not in the collective that the others waited in -------------------------------------


def _missing(run: RecordedRun, stories: Sequence[RankStory]) -> First | None:
    waiting = [s for s in stories if (c := s.open_call) and _has_lasted(run, s, c)]
    if not waiting:
        return _left(stories, [s for s in stories if s.is_echo])
    # Of several that wait in different ones, those in the last one wait for all others.
    last = max(waiting, key=lambda s: s.open_call.sequence if s.open_call else 0)
    call = last.open_call
    assert call is not None
    waiting = [s for s in waiting if _is_at(s, call)]
    absent = [
        s for s in members(stories, call.group) if s not in waiting and _position(s, call) is None
    ]
    late = [
        s
        for s in stories
        if (c := _position(s, call)) and c.entered_t_seconds > _gave_up_at(waiting, s)
    ]
    if left := _left([s for s in stories if s in absent], waiting):
        return left
    if absent:
        return _stuck(run, min(absent, key=_last_sign), waiting, call)
    return _late(run, late, [s for s in waiting if s not in late]) if late else None


def _has_lasted(run: RecordedRun, story: RankStory, call: CollectiveCall) -> bool:
    if call.has_raised or story.has_waited:
        return True
    end = story.end_t_seconds if story.end_t_seconds is not None else run.end_t_seconds
    return end - call.entered_t_seconds >= SHORTEST_WAIT_SECONDS


def _position(story: RankStory, call: CollectiveCall) -> CollectiveCall | None:
    """Its own call at the same place of the sequence, or a later one."""
    found = [c for c in story.calls if c.group == call.group and c.sequence >= call.sequence]
    return found[0] if found else None


def _is_at(story: RankStory, call: CollectiveCall) -> bool:
    own = story.open_call
    return own is not None and (own.group, own.sequence) == (call.group, call.sequence)


def _gave_up_at(waiting: Sequence[RankStory], story: RankStory) -> float:
    """When the first of the others gave up."""
    ends = []
    for other in waiting:
        if other is not story and (call := other.open_call) is not None:
            ended = call.left_t_seconds or other.failed_t_seconds
            ends += [ended] if ended is not None else []
    return min(ends, default=float("inf"))


def _last_sign(story: RankStory) -> float:
    call = story.last_call
    return (call.left_t_seconds or call.entered_t_seconds) if call else 0.0


def _left(absent: Sequence[RankStory], waiting: Sequence[RankStory]) -> First | None:
    left = [s for s in absent if s.has_left and s.end_t_seconds is not None]
    still_there = [w for w in waiting if w not in left]
    if not left or not still_there:
        return None
    story = min(left, key=lambda s: s.end_t_seconds or 0.0)
    reason = "left with exit code 0" + _after_step(story)
    call = still_there[0].open_call or still_there[0].last_call
    return First(story, "left", story.end_t_seconds or 0.0, reason, still_there, call)


def _stuck(
    run: RecordedRun, story: RankStory, waiting: list[RankStory], call: CollectiveCall
) -> First:
    since = min(w.open_call.entered_t_seconds for w in waiting if w.open_call)
    seen = seen_in(run, story, since)
    where = seen.own if seen else None
    if seen and seen.sleeps:
        reason = "slept" + (place_in(where) or _after_step(story))
    elif where:
        reason = "was" + place_in(where)
    elif seen and seen.waits_for:
        reason = f"waited for {seen.waits_for}{_after_step(story)}"
    elif (own := story.open_call) is not None and not _is_at(story, call):
        reason = f"was in {call_in_words(own, call)}{place_in(own.place)}"
    else:
        reason = f"had not come{_after_step(story)}"
    return First(story, "stuck", since, reason, waiting, call, where)


def _late(run: RecordedRun, late: list[RankStory], waiting: list[RankStory]) -> First | None:
    """It came, but after the others had given up."""
    call = waiting[0].open_call if waiting else None
    if call is None:
        return None
    entered = [(own.entered_t_seconds, s) for s in late if (own := _position(s, call))]
    came_t, story = max(entered, key=lambda one: one[0])
    began = min(w.open_call.entered_t_seconds for w in waiting if w.open_call)
    seen = seen_in(run, story, began)
    where = seen.own if seen else None
    reason = f"came {seconds_in_words(came_t - began)} late"
    if where is not None:
        reason += f" from{place_in(where).removeprefix(' in')}"
    return First(story, "late", began, reason, waiting, call, where)


# ---- in words ------------------------------------------------------------------------------------


def _after_step(story: RankStory) -> str:
    steps = story.box.optimizer_steps if story.box else 0
    return f" after step {steps:,}" if steps else ""


def _named(stories: Sequence[RankStory]) -> str:
    return ranks_in_words([story.rank for story in stories])


def _told(first: First) -> str:
    text = f"rank {first.story.rank} (pid {first.story.process.pid}) {first.reason}"
    if first.waiting and first.call is None:
        return text + f" while {_named(first.waiting)} knew of {len(first.waiting) + 1}"
    if first.call is None:
        return text
    text += f" while {_named(first.waiting)} "
    if first.kind == "elsewhere":
        return text + f"called {call_in_words(first.call)}{place_in(first.call.place)}"
    text += f"waited in {call_in_words(first.call)}"
    gave_up = [s for s in first.waiting if s.has_waited and s.open_call and s.failed_t_seconds]
    if gave_up:
        waits = [
            _failed_at(s) - c.entered_t_seconds for s in gave_up if (c := s.open_call) is not None
        ]
        text += f" and gave up after {seconds_in_words(min(waits))}"
    return text


def _observation(first: First, stories: Sequence[RankStory]) -> Observation:
    rank = first.story.rank
    others = [
        s for s in stories if s is not first.story and (s.failed_t_seconds is not None or s.reason)
    ]
    if first.is_failure:
        text = f"rank {rank} failed first: {first.reason}"
        text += f", {seconds_in_words(first.t_seconds)} after the start"
        if others:
            rest = f" and {counted(len(others) - 8, 'other')}" if len(others) > 8 else ""
            names = listed([s.name for s in others[:MOST_NAMED]])
            text += f"; the end of {names}{rest} is an echo of it ({others[0].reason})"
    else:
        text = _told(first)
    data: dict[str, Any] = {
        "who": f"rank {rank}",
        "rank": rank,
        "pid": first.story.process.pid,
        "reason": first.reason,
        "how": first.kind,
        # The words of those who waited for it tell what happened: they are no echo then.
        "others": [s.name for s in others] if first.is_failure else [],
        "waiting": [s.name for s in first.waiting],
        "t_seconds": first.t_seconds,
        "story": None if first.is_failure else text,
    }
    if first.where is not None:
        data["where"] = where_of(first.where, first.story.process, rank)
    return Observation("failed-first", sentence(text), f"exit:{first.story.process.pid}", data)
