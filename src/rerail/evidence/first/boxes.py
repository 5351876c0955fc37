"""Who failed first, by what the recorder and the black boxes know of every rank.

In: a recorded run. Out: one `failed-first` observation when two or more ranks are known and one of
them kept the others from going on. All times are on one clock. A rank that was terminated by the
launcher never counts as first by its own end (docs/design/which-rank-failed-first.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.first.model import Actor, ActorStanding, Verdict, Wait, observation
from rerail.evidence.first.rules import Scene
from rerail.evidence.first.sequence import first_disagreement
from rerail.evidence.first.words import how_it_ended
from rerail.evidence.run.call_words import MOST_NAMED, call_in_words, place_in, ranks_in_words
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.rank_stories import (
    ENDED_BY_OTHERS,
    RankStory,
    Seen,
    members,
    rank_stories,
    seen_in,
)
from rerail.evidence.run.where import where_of
from rerail.records import CollectiveCall, Observation, PythonFrame
from rerail.wording import counted, listed, seconds_in_words, sentence

NOTICED_LATER_SECONDS = 3.0  # an end is seen later than the peers see their connection close
SHORTEST_WAIT_SECONDS = 5.0  # less is a step like others
# Signals by which schedulers and people end a job: what ranks do afterwards is their answer to it.
_ENDS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")


def read_failed_first(run: RecordedRun) -> list[Observation]:
    stories = rank_stories(run)
    outcome = run.info.outcome
    # A script that only waits for its ranks ends with 0 whatever became of them.
    all_well = all(story.failed_t_seconds is None for story in stories)
    if len(stories) < 2 or (outcome is not None and outcome.kind == "ok" and all_well):
        return []
    scene = _Ranks(run, stories)
    verdict = scene.verdict()
    return [_told(run, scene, verdict)] if verdict is not None else []


class _Ranks(Scene[RankStory]):
    later_seconds = NOTICED_LATER_SECONDS

    def __init__(self, run: RecordedRun, stories: Sequence[RankStory]) -> None:
        super().__init__([*_launchers(run, stories), *(_of_rank(story) for story in stories)])
        self._run = run
        self._stories = stories
        self._disagreement = first_disagreement(stories)

    def is_explained(self, standing: ActorStanding[RankStory]) -> bool:
        """Whether it ended inside a collective after the ranks had begun to make different calls.

        Which rank is told of a disagreement first, and in which words, depends on whose message
        arrives first. So such an end is an echo whatever its words are, also without any words.
        """
        call = standing.source.open_call
        if call is None or self._disagreement is None:
            return False
        first = next(iter(self._disagreement[1].values()))
        return first.group == call.group and first.sequence <= call.sequence

    def waits(self) -> list[Wait[RankStory]]:
        """Return the last collective of each group in which a rank waits."""
        waiting = [s for s in self._stories if (c := s.open_call) and self._has_lasted(s, c)]
        if not waiting:
            lost = [s for s in self._stories if s.is_echo]
            left = [s for s in self._stories if s.has_left]
            return [self._wait(lost, left)] if lost and left else []
        groups = dict.fromkeys(c.group for s in waiting if (c := s.open_call))
        found = [self._wait_in(group, waiting) for group in groups]
        return sorted(found, key=_began)

    def _wait_in(self, group: str, waiting: Sequence[RankStory]) -> Wait[RankStory]:
        stories = self._stories
        calls = [c for s in waiting if (c := s.open_call) and c.group == group]
        call = max(calls, key=lambda each: each.sequence)  # those in the last one wait for all
        inside = [s for s in waiting if _is_at(s, call)]
        absent = [
            s for s in members(stories, group) if s not in inside and _position(s, call) is None
        ]
        late = [
            (own.entered_t_seconds, s)
            for s in stories
            if (own := _position(s, call)) and own.entered_t_seconds > _gave_up_at(inside, s)
        ]
        late.sort(key=lambda one: -one[0])
        patient = [s for s in inside if all(s is not other for _, other in late)]
        came_late = [s for _, s in late] if patient and not absent else []
        waits = patient if came_late else inside
        return self._wait(waits, sorted(absent, key=_last_sign), came_late)

    def _wait(
        self,
        waiting: Sequence[RankStory],
        absent: Sequence[RankStory],
        late: Sequence[RankStory] = (),
    ) -> Wait[RankStory]:
        call = waiting[0].open_call or waiting[0].last_call
        stood = {s.rank: s for s in self.actors}
        lists = [[stood[s.rank] for s in stories] for stories in (waiting, absent, late)]
        return Wait(lists[0], call, *lists[1:])

    def _has_lasted(self, story: RankStory, call: CollectiveCall) -> bool:
        if call.has_raised or story.has_waited:
            return True
        end = story.end_t_seconds if story.end_t_seconds is not None else self._run.end_t_seconds
        return end - call.entered_t_seconds >= SHORTEST_WAIT_SECONDS


def _of_rank(story: RankStory) -> ActorStanding[RankStory]:
    failed_t = story.failed_t_seconds
    return ActorStanding(
        Actor("rank", story.name, (story.rank,)),
        story,
        how="left" if story.has_left else _how(story),
        t=story.end_t_seconds if story.has_left else failed_t,
        place=(story.rank,),
        is_echo=story.is_echo,
        has_waited=story.has_waited,
        was_ended=story.was_terminated,
        world_size=story.box.world_size if story.box is not None else None,
        calls=story.calls,
    )


def _how(story: RankStory) -> str:
    if story.failed_t_seconds is None:
        return ""
    if story.crash is not None:
        return how_it_ended(str(story.crash.signal))
    if story.box is not None and story.box.exception_type:
        return "raised"
    return how_it_ended(story.process.signal)


def _launchers(run: RecordedRun, stories: Sequence[RankStory]) -> list[ActorStanding[RankStory]]:
    """Those that died by themselves."""
    parents = {story.process.parent_pid for story in stories}
    found = []
    for process in run.processes:
        signal, t = process.signal, process.ended_t_seconds
        is_one = process.pid in parents and run.rank_of(process) is None
        if is_one and signal is not None and signal not in ENDED_BY_OTHERS:
            name = "main process" if process.role == "main" else "launcher"
            story = RankStory(-1, process, None, t, t, reason=f"killed by {signal}")
            found.append(ActorStanding(Actor("launcher", name), story, how_it_ended(signal), t))
    return found


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


def _began(wait: Wait[RankStory]) -> float:
    """When the first of those who wait entered the collective."""
    calls = [s.source.open_call for s in wait.waiting]
    return min((c.entered_t_seconds for c in calls if c is not None), default=0.0)


# ---- in words ------------------------------------------------------------------------------------


def _told(run: RecordedRun, scene: Scene[RankStory], found: Verdict[RankStory]) -> Observation:
    assert found.first is not None
    story = found.first.source
    pid, is_launcher = story.process.pid, found.who.kind == "launcher"
    t_seconds, reason, where = _what_it_did(run, scene, found)
    if is_launcher:
        text = f"the {found.who.name} (pid {pid}) was {reason} {seconds_in_words(t_seconds)}"
        text += f" after the start; the end of {_named(found.others)} is an echo of it"
    elif found.is_failure:
        text = f"{story.name} failed first: {reason}, {seconds_in_words(t_seconds)} after the start"
        text += _echoes(found)
    else:
        text = f"{story.name} (pid {pid}) {reason}{_what_others_did(found)}"
    more: dict[str, Any] = {
        "rank": None if is_launcher else story.rank,
        "pid": pid,
        "reason": reason,
        # The words of those who waited for it tell what happened: they are no echo then.
        "others": [s.actor.name for s in found.others],
        "waiting": [s.actor.name for s in found.waiting],
        "t_seconds": t_seconds,
        "story": None if found.is_failure else text,
    }
    if where is not None:
        more["where"] = where_of(where, story.process, story.rank)
    if found.how == "mismatch" and not found.calls:
        more["differs_in"] = "world size"
    if found.how == "left" and not any(s.has_waited for s in found.waiting):
        more["lost_connection"] = True  # nobody waited in vain: its end closed their connections
    if _was_after_a_signal(run, found):
        more["after_signal"] = True
    return observation(found, sentence(text), f"exit:{pid}", **more)


def _was_after_a_signal(run: RecordedRun, found: Verdict[RankStory]) -> bool:
    """Whether the job had been told to end before anybody was seen to fail."""
    signals = run.events_of("signal-forwarded")
    sent = [event.t_seconds for event in signals if event.data.get("signal") in _ENDS]
    failed = [found.first] if found.is_failure else [s for s in found.waiting if s.has_failed]
    seen = [s.t for s in failed if s is not None and s.t is not None]
    return bool(sent) and (not seen or min(sent) <= min(seen))


def _what_it_did(
    run: RecordedRun, scene: Scene[RankStory], found: Verdict[RankStory]
) -> tuple[float, str, PythonFrame | None]:
    """Return since when, in words that follow its name, and in which line."""
    assert found.first is not None
    story = found.first.source
    if found.is_failure:
        return found.t or 0.0, story.reason, None
    if found.how == "left":
        return found.t or 0.0, "left with exit code 0" + _after_step(story), None
    if found.calls:
        call, usual = found.calls[story.rank], found.calls[found.waiting[0].rank]
        reason = f"called {call_in_words(call, usual)}{place_in(call.place)}"
        return call.entered_t_seconds, reason, call.place
    if found.wait is None:
        failed = [s.t for s in scene.actors if s.has_failed and s.t is not None]
        size = found.first.world_size
        return min(failed), f"was told that there are {size} ranks", None
    since = _began(found.wait)
    seen = seen_in(run, story, since)
    where = seen.own if seen else None
    if found.how == "stuck":
        return since, _where_it_was(story, found, seen), where
    own = _position(story, _call_of(found))
    came = own.entered_t_seconds if own is not None else since
    reason = f"came {seconds_in_words(came - since)} late"
    if where is not None:
        reason += f" from{place_in(where).removeprefix(' in')}"
    return since, reason, where


def _where_it_was(story: RankStory, found: Verdict[RankStory], seen: Seen | None) -> str:
    if seen and seen.sleeps:
        return "slept" + (place_in(seen.own) or _after_step(story))
    if seen and seen.own:
        return "was" + place_in(seen.own)
    if seen and seen.waits_for:
        return f"waited for {seen.waits_for}{_after_step(story)}"
    call = _call_of(found)
    if (own := story.open_call) is not None and not _is_at(story, call):
        return f"was in {call_in_words(own, call)}{place_in(own.place)}"
    return f"had not come{_after_step(story)}"


def _call_of(found: Verdict[RankStory]) -> CollectiveCall:
    assert found.wait is not None and found.wait.call is not None
    return found.wait.call


def _what_others_did(found: Verdict[RankStory]) -> str:
    text = f" while {_named(found.waiting)}"
    if found.calls:
        usual = found.calls[found.waiting[0].rank]
        return f"{text} called {call_in_words(usual)}{place_in(usual.place)}"
    if found.wait is None:
        return f"{text} knew of {len(found.waiting) + 1}"
    if found.wait.call is None:
        return ""
    text += f" waited in {call_in_words(found.wait.call)}"
    waits = [
        s.t - call.entered_t_seconds
        for s in found.waiting
        if s.has_waited and s.t is not None and (call := s.source.open_call) is not None
    ]
    return text + (f" and gave up after {seconds_in_words(min(waits))}" if waits else "")


def _echoes(found: Verdict[RankStory]) -> str:
    if not found.others:
        return ""
    rest = len(found.others) - MOST_NAMED
    names = listed([s.actor.name for s in found.others[:MOST_NAMED]])
    names += f" and {counted(rest, 'other')}" if rest > 0 else ""
    return f"; the end of {names} is an echo of it ({found.others[0].source.reason})"


def _after_step(story: RankStory) -> str:
    steps = story.box.optimizer_steps if story.box else 0
    return f" after step {steps:,}" if steps else ""


def _named(ranks: Sequence[ActorStanding[RankStory]]) -> str:
    return ranks_in_words([s.rank for s in ranks])
