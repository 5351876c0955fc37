"""Ranks that hold the others up, noticed and told while the run lives.

In: the agents' black boxes. Out: the events `straggler`, `straggler-over` and `rank-missing`, and a
line each for the user; whoever is notified of stalls is notified of these too. Promises: a run
without ranks costs one look at its boxes now and then; the stacks of a rank that is missing are
taken in a child with a deadline, as for a stall; a rank that comes and goes is printed and
recorded so many times, and then it is said that no more follows.
"""

from __future__ import annotations

import os
import time
from typing import Any, Protocol

from rerail.platform.forked_task import ForkedTask
from rerail.recorder.run.recording import Notifies
from rerail.recorder.saying import say
from rerail.recorder.stragglers.counters import RankCounters
from rerail.recorder.stragglers.judgement import Caught, Sample, Slow, Stragglers
from rerail.recorder.stragglers.missing import LEAST_SECONDS, Missing, find_missing
from rerail.recorder.tree.processes import Tree
from rerail.store import BoxReader, RunWriter

ALONE_SECONDS = 2.0  # between looks at a run that has no ranks so far
_MISSING_LOOK_SECONDS = 1.0
_STACKS_SECONDS = 10.0
_DISTURB_SECONDS = 20.0  # then it is asked for its stack by a signal, if nothing gentler answers
_MOST_PLACE_BYTES = 500
_NOTIFY_SECONDS = 30.0  # that the others have waited; a checkpoint of one rank may take as long
MOST_PRINTED = 8
MOST_RECORDED = 200


class RankOptions(Protocol):
    @property
    def is_quiet(self) -> bool: ...
    @property
    def notifier(self) -> Notifies | None: ...


class RankWatch:
    def __init__(self, writer: RunWriter, tree: Tree, options: RankOptions) -> None:
        self._writer = writer
        self._tree = tree
        self._options = options
        self._told_count = 0
        self._lasting: frozenset[str] = frozenset()  # events whose end is not recorded yet
        self._counters = RankCounters(writer.agent_dir)
        self._boxes = BoxReader(writer.agent_dir, writer.t0_ns)
        self._judge = Stragglers()
        self._next_look = 0.0
        self._steps: dict[int, int] = {}
        self._stepped = 0.0  # when a rank last ended a step
        self._pace = 0.0  # seconds a step
        self._first: tuple[float, int] | None = None
        self._next_missing = 0.0
        self._told: dict[tuple[int, str, int], bool] = {}  # and whether it is for good
        self._look: tuple[ForkedTask, int, Missing] | None = None
        self._missing: Missing | None = None  # who was told of, as long as it lasts
        self._where = ""  # where it stands, as far as that was found
        self._notified: tuple[int, str, int] | None = None

    def look(self) -> None:
        """Four times a second."""
        now = time.monotonic()
        if self._look is not None and self._look[0].is_over():
            self._end_look()
        if now < self._next_look:
            return
        samples = self._counters.read()
        if len(samples) < 2:
            self._next_look = now + ALONE_SECONDS
            return
        self._note_steps(samples, now)
        found = self._judge.look(samples)
        if isinstance(found, Slow):
            self._tell_slow(found)
        elif isinstance(found, Caught):
            self._tell("straggler-over", **_of(found))
        silent = now - self._stepped
        if silent >= LEAST_SECONDS and now >= self._next_missing and self._look is None:
            self._next_missing = now + _MISSING_LOOK_SECONDS
            self._look_for_missing()

    def _note_steps(self, samples: list[Sample], now: float) -> None:
        steps = {sample.rank: sample.steps for sample in samples}
        if steps == self._steps:
            return
        self._steps, self._stepped = steps, now
        self._goes_on()
        most = max(steps.values())
        if self._first is None or self._first[1] > most:
            self._first = (now, most)
        elif most > self._first[1]:
            self._pace = (now - self._first[0]) / (most - self._first[1])

    def _tell_slow(self, slow: Slow) -> None:
        self._tell(
            "straggler",
            **_of(slow),
            part=slow.part,
            since_step=slow.since_step,
            excess=round(slow.excess, 4),
            own_seconds=round(slow.own_seconds, 6),
            others_seconds=round(slow.others_seconds, 6),
            step_seconds=round(slow.step_seconds, 6),
        )
        self._notify(slow.text)

    def _tell(self, kind: str, *, text: str, **data: Any) -> None:
        """Into the record and to the user, as long as it is news."""
        self._told_count += 1
        begun, is_over = kind.removesuffix("-over"), kind.endswith("-over")
        # What was recorded to have begun is recorded to be over.
        if begun in self._lasting if is_over else self._told_count <= MOST_RECORDED:
            self._writer.event(kind, **data, text=text)
            self._lasting = self._lasting - {begun} if is_over else self._lasting | {begun}
        if self._told_count == MOST_RECORDED:
            more = "ranks are slow or missing again and again: further times are not recorded"
            self._writer.event("note", text=more)
        if self._told_count <= MOST_PRINTED:
            say(text, self._options.is_quiet)
        if self._told_count == MOST_PRINTED:
            more = "further news of slow and missing ranks is only recorded"
            say(f"{more}; see `rerail show {self._writer.id}`", self._options.is_quiet)

    def _notify(self, text: str) -> None:
        notifier = self._options.notifier
        pid = notifier.rank_holds_up(self._writer.path, text) if notifier is not None else None
        if pid is not None:
            self._tree.own_helpers.add(pid)

    # -- a rank that the others wait for ------------------------------------------------------

    def _look_for_missing(self) -> None:
        living = {process.pid for process in self._tree.living.values()}
        missing = find_missing(self._boxes.read(), self._writer.now(), self._pace, living)
        if missing is None:
            return
        if missing.seconds >= _NOTIFY_SECONDS and missing.key != self._notified:
            self._notified = missing.key
            self._notify(missing.text(self._where))
        may_disturb = missing.seconds >= _DISTURB_SECONDS
        if self._told.get(missing.key, False) or (missing.key in self._told and not may_disturb):
            return
        self._told[missing.key] = may_disturb
        records = [p.record() for p in self._tree.living.values() if p.pid == missing.pid]

        def take(write_end: int) -> None:
            from rerail.recorder.stalls.message import place_of
            from rerail.recorder.stalls.stacks import take as take_stacks

            found = take_stacks(records, self._writer.agent_dir, may_disturb=may_disturb)
            os.write(write_end, place_of(records, found).encode()[:_MOST_PLACE_BYTES])

        try:
            task, read_end = ForkedTask.start_with_answer("stacks", take, _STACKS_SECONDS)
        except OSError:
            self._tell_missing(missing, "")
            return
        self._look = (task, read_end, missing)
        self._tree.own_helpers.add(task.pid)

    def _end_look(self) -> None:
        assert self._look is not None
        _, read_end, missing = self._look
        self._look = None
        try:
            where = os.read(read_end, _MOST_PLACE_BYTES).decode(errors="replace")
        except OSError:
            where = ""
        os.close(read_end)
        if where:
            self._told[missing.key] = True
        self._tell_missing(missing, where)

    def _goes_on(self) -> None:
        missing, self._missing, self._where = self._missing, None, ""
        self._told.clear()
        if missing is not None:
            text = f"rank {missing.rank} (pid {missing.pid}) has entered it, and the ranks go on"
            self._tell("rank-missing-over", rank=missing.rank, pid=missing.pid, text=text)

    def _tell_missing(self, missing: Missing, where: str) -> None:
        self._missing = missing
        text = missing.text(where)
        self._where = where or self._where
        self._tell(
            "rank-missing",
            rank=missing.rank,
            pid=missing.pid,
            collective=missing.call.op,
            number=missing.call.sequence,
            waiting=list(missing.waiting),
            waited_seconds=round(missing.seconds, 3),
            text=text,
        )

    def close(self) -> None:
        if self._look is not None:
            task, read_end, missing = self._look
            task.cancel()
            os.close(read_end)
            self._look = None
            self._tell_missing(missing, "")
        self._counters.close()


def _of(found: Slow | Caught) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "pid": found.pid,
        "at_step": found.at_step,
        "text": found.text,
    }
