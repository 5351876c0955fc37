"""Which one of many failed first? The rules, in their order.

In: a `Scene`: how all actors of a job stood, by one source of evidence. Out: a `Verdict`, or None.
Who complains first is seldom who failed first: an actor that waits in vain says so, and the one
that it waits for says nothing. The first rule that has an answer decides:

1. the launcher was killed before anybody had failed
2. somebody failed by itself: the earliest, unless others had given up before, or another one was
   lost before; not inside a collective at which the calls of the ranks had begun to differ
3. somebody was lost: a node that vanished, lost its network, or whose scheduler says so
4. the others name somebody
5. somebody knew another number of ranks, or made another call than the others at the same place
6. somebody never came
7. somebody has not entered the collective that others wait in (it left, or is stuck), came when
   they had given up (late), or has queued it and not started it
8. somebody wrote nothing more; then: somebody's log is missing
9. the earliest end, an echo only if there are nothing but echoes

A source that cannot know the answer to a rule does not answer it. docs/design/one-model-of-the-
first-failure.md says why this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from rerail.evidence.first.model import ActorStanding, T, Verdict, Wait
from rerail.evidence.first.sequence import first_disagreement


class Scene(Generic[T]):
    """All actors of one job. An adapter overrides the rules to which its source has answers."""

    # An end this much after others gave up waiting is one of those that they caused.
    later_seconds = float("inf")

    def __init__(self, standings: Sequence[ActorStanding[T]]) -> None:
        self.launchers = [s for s in standings if s.actor.kind == "launcher"]
        self.actors = [s for s in standings if s.actor.kind != "launcher"]

    def verdict(self) -> Verdict[T] | None:
        return (
            self.launcher_was_ended()
            or self.failed_by_itself()
            or self.was_lost()
            or self.was_accused()
            or self.knows_another_world()
            or self.called_another()
            or self.never_came()
            or self.was_absent()
            or self.was_silent()
            or self.left_no_log()
            or self.ended_first()
        )

    # ---- what only some sources can know ---------------------------------------------------------

    def is_explained(self, standing: ActorStanding[T]) -> bool:
        """Whether something else is known to be the reason of a failure, whatever it says."""
        return False

    def waits(self) -> Sequence[Wait[T]]:
        """Return the collectives in which somebody waits, the earliest first."""
        return ()

    def was_accused(self) -> Verdict[T] | None:
        return None

    def never_came(self) -> Verdict[T] | None:
        return None

    def was_silent(self) -> Verdict[T] | None:
        return None

    def left_no_log(self) -> Verdict[T] | None:
        return None

    # ---- what follows from the standings ---------------------------------------------------------

    def launcher_was_ended(self) -> Verdict[T] | None:
        own = [s.t for s in self.actors if s.failed_by_itself and s.t is not None]
        for one in self.launchers:
            if one.t is not None and one.t < min(own, default=float("inf")):
                return Verdict(one.actor, one.how, one, self.actors, by="time")
        return None

    def failed_by_itself(self) -> Verdict[T] | None:
        own = [s for s in self.actors if s.failed_by_itself and not self.is_explained(s)]
        if not own:
            return None
        found = self.earliest(own)
        t, loss = found.t, self.was_lost()
        if t is not None:
            latest_t = loss.first.latest_t if loss is not None and loss.first is not None else None
            gave_up = [s.t for s in self.actors if s.is_echo or s.has_waited]
            gave_up_t = min((each for each in gave_up if each is not None), default=t)
            if (latest_t is not None and latest_t < t) or gave_up_t + self.later_seconds < t:
                return None
        return found

    def was_lost(self) -> Verdict[T] | None:
        lost = [s for s in self.actors if s.how == "lost"]
        if not lost:
            return None
        first = min(lost, key=lambda s: (s.t is None, s.t or 0.0, s.place))
        return Verdict(first.actor, "lost", first)

    def knows_another_world(self) -> Verdict[T] | None:
        sizes = {s.world_size for s in self.actors if s.world_size}
        wrong = [s for s in self.actors if s.world_size and s.world_size != len(self.actors)]
        if len(sizes) < 2 or len(wrong) != 1 or not any(s.has_failed for s in self.actors):
            return None
        first = wrong[0]
        return Verdict(first.actor, "mismatch", first, waiting=self._all_but(first))

    def called_another(self) -> Verdict[T] | None:
        found = first_disagreement([s for s in self.actors if s.calls])
        if found is None:
            return None
        odd, calls = found
        by_rank = {s.rank: s for s in self.actors}
        others = [by_rank[rank] for rank in calls if rank != odd]
        first = by_rank[odd]
        return Verdict(first.actor, "mismatch", first, waiting=others, calls=calls)

    def was_absent(self) -> Verdict[T] | None:
        """Of several collectives, the one whose absent actor does not itself wait in another."""
        waits = self.waits()
        held = {s.actor for wait in waits for s in wait.waiting}
        absences = [wait for wait in waits if wait.absent]
        free = [w for w in absences if any(s.actor not in held for s in w.absent)]
        for wait in free or absences:
            absent = [s for s in wait.absent if s.actor not in held] or wait.absent
            return _absent_from(replace(wait, absent=absent))
        late = [_of_wait(wait, "late", wait.late[0]) for wait in waits if wait.late]
        queued = [wait for wait in waits if wait.not_started]
        late += [_of_wait(wait, "stuck", wait.not_started[0]) for wait in queued]
        return late[0] if late else None

    def ended_first(self) -> Verdict[T] | None:
        ends = [s for s in self.actors if s.has_failed and not s.was_ended]
        pool = [s for s in ends if not s.is_echo] or ends
        return self.earliest(pool) if pool else None

    def earliest(self, pool: Sequence[ActorStanding[T]]) -> Verdict[T]:
        """Return the first by the clock, if there is one that all share; else by their place."""
        has_clock = all(s.t is not None for s in pool)
        first, *later = sorted(pool, key=lambda s: (s.t or 0.0 if has_clock else 0.0, s.place))
        doubts = [(s.t or 0.0) - (first.t or 0.0) - s.doubt - first.doubt for s in later]
        is_certain = not has_clock or all(seconds > 0 for seconds in doubts)
        others = [s for s in self._all_but(first) if s.has_failed]
        by = "time" if has_clock else "structure"
        return Verdict(first.actor, first.how, first, others, by=by, is_certain=is_certain)

    def _all_but(self, first: ActorStanding[T]) -> list[ActorStanding[T]]:
        return [s for s in self.actors if s.actor != first.actor]


def _absent_from(wait: Wait[T]) -> Verdict[T]:
    left = [s for s in wait.absent if s.how == "left"]
    if left:
        return _of_wait(wait, "left", min(left, key=lambda s: (s.t or 0.0, s.place)))
    return _of_wait(wait, "stuck", wait.absent[0])


def _of_wait(wait: Wait[T], how: str, first: ActorStanding[T]) -> Verdict[T]:
    waiting = [s for s in wait.waiting if s.actor != first.actor]
    return Verdict(first.actor, how, first, waiting=waiting, wait=wait)
