"""What happened to each rank, on one clock: how far it came, what it waited in, how it ended.

In: a recorded run. Out: one `RankStory` per rank, pure. The clock is the run's own: the agents, the
recorder and the stacks of one machine count the same seconds. Who failed first is judged in
evidence/first/boxes.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.recorder import find_places, who_is_who
from rerail.records import (
    BlackBox,
    CollectiveCall,
    Crash,
    ProcessRecord,
    PythonFrame,
    Stall,
)

NOT_RANKS = ("loader-worker", "helper", "launcher", "shell")
ECHO_WORDS = linear(
    r"connection (closed|reset) by peer|broken pipe|remote process (exited|has terminated)"
    r"|socket (closed|timeout)|peer .{0,20}(died|exited|closed)|ncclRemoteError|ncclInProgress"
    r"|NCCL communicator was aborted|another rank|SIGTERM|Signal 15|recvValue failed|EOF on socket"
    r"|connection was likely closed|ConnectionResetError|Connection refused",
    re.IGNORECASE,
)
# What a rank says that waited for the others in vain, or got something else than it waited for.
WAITED_WORDS = linear(
    r"timed out waiting|collective operation timeout|Wait timeout|Watchdog|monitoredBarrier"
    r"|preamble\.length|Mismatch between collectives|mismatch in|Timed out after"
    r"|Application timeout caused pair closure|DistStoreError|wait timeout",
    re.IGNORECASE,
)
_SOURCE_PLACE = linear(r"^\s*\[[^\]]*\]\s*")
ENDED_BY_OTHERS = {"SIGTERM", "SIGINT", "SIGHUP"}


@dataclass(frozen=True)
class RankStory:
    rank: int
    process: ProcessRecord
    box: BlackBox | None
    end_t_seconds: float | None  # of the process; None: nobody saw it end
    failed_t_seconds: float | None  # the earliest sign that it failed; None: it did not
    reason: str = ""
    is_echo: bool = False  # it lost another rank
    has_waited: bool = False  # it gave up waiting for another rank, or got the wrong answer
    was_terminated: bool = False
    crash: Crash | None = None
    calls: list[CollectiveCall] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.rank}"

    @property
    def failed_by_itself(self) -> bool:
        has_failed = self.failed_t_seconds is not None
        return has_failed and not (self.is_echo or self.has_waited or self.was_terminated)

    @property
    def has_left(self) -> bool:
        """With 0, which nobody calls a failure."""
        return self.end_t_seconds is not None and self.process.exit_code == 0 and not self.reason

    @property
    def open_call(self) -> CollectiveCall | None:
        """The one that it was in when it ended, or that raised."""
        waited = [c for c in self.calls if c.is_waited_for or c.has_raised or c.op == "gradients"]
        last = waited[-1] if waited else None
        return last if last and (last.left_t_seconds is None or last.has_raised) else None

    @property
    def last_call(self) -> CollectiveCall | None:
        return self.calls[-1] if self.calls else None


def rank_stories(run: RecordedRun) -> list[RankStory]:
    """Of every rank, in their order; of a restarted one the last process."""
    crashes = {f"{c.pid}-{c.start_ticks}": c for c in run.crashes}
    by_pid = {process.pid: process for process in run.processes}
    found: dict[int, RankStory] = {}
    for process in sorted(run.processes, key=lambda p: p.started_t_seconds):
        rank = run.rank_of(process)
        if rank is None or process.role in NOT_RANKS or _is_of_a_rank(run, by_pid, process, rank):
            continue
        found[rank] = _story(run, process, rank, crashes.get(process.key))
    return [found[rank] for rank in sorted(found)]


def _is_of_a_rank(
    run: RecordedRun, by_pid: Mapping[int, ProcessRecord], process: ProcessRecord, rank: int
) -> bool:
    """What a rank starts has its environment and is none, also where a shell is in between."""
    seen = {process.pid}
    while (parent := by_pid.get(process.parent_pid or 0)) is not None and parent.pid not in seen:
        if parent.role not in NOT_RANKS and run.rank_of(parent) == rank:
            return True
        seen.add(parent.pid)
        process = parent
    return False


def _story(run: RecordedRun, process: ProcessRecord, rank: int, crash: Crash | None) -> RankStory:
    box = run.box_of(process)
    end = process.ended_t_seconds
    words, reason = "", ""
    raised = box is not None and box.exception_type
    failed_t: float | None = None
    if crash is not None:
        reason = str(crash.signal)
        words = crash.message or ""
        failed_t = crash.t_seconds if crash.t_seconds is not None else end
    elif raised and box is not None:
        words = f"{box.exception_type} {box.exception_text or ''}"
        reason = in_short(box.exception_type or "", box.exception_text or "")
        failed_t = box.exception_t_seconds
    elif process.signal is not None or (process.exit_code or 0) != 0:
        reason = process.signal or f"exit code {process.exit_code}"
    if reason and failed_t is None:
        failed_t = end if end is not None else run.end_t_seconds
    calls = box.collectives if box is not None else []
    return RankStory(
        rank=rank,
        process=process,
        box=box,
        end_t_seconds=end,
        failed_t_seconds=failed_t,
        reason=reason,
        is_echo=bool(ECHO_WORDS.search(words)),
        has_waited=bool(WAITED_WORDS.search(words)),
        was_terminated=not raised and crash is None and process.signal in ENDED_BY_OTHERS,
        crash=crash,
        calls=calls,
    )


def in_short(kind: str, message: str) -> str:
    """ "RuntimeError: Connection closed by peer": without the place in the C++ source."""
    words = " ".join(_SOURCE_PLACE.sub("", message).split())
    return f"{kind.rpartition('.')[2]}: {words[:70].rstrip('. ')}" if words else kind


@dataclass(frozen=True)
class Seen:
    """Where a rank's stack was: the user's own code first, and what it waited for."""

    own: PythonFrame | None
    sleeps: bool
    waits_for: str | None


def seen_in(run: RecordedRun, story: RankStory, since: float) -> Seen | None:
    """In the last stacks that were taken after `since`."""
    for stall in reversed(run.stalls):
        if stall.t_seconds >= since and stall.stacks.get(story.process.key):
            return _seen(run, stall, story)
    return None


def _seen(run: RecordedRun, stall: Stall, story: RankStory) -> Seen | None:
    boxes = {f"{box.pid}-{box.start_ticks}": box for box in run.boxes}
    stacks = {story.process.key: stall.stacks[story.process.key]}
    places = find_places(stacks, who_is_who([story.process], boxes))
    if not places:
        return None
    place = places[0]
    kind = place.waits.kind if place.waits else None
    words = place.thread.waits_for
    sleeps = kind == "sleep" or "sleep" in (words or "")
    return Seen(place.own[0] if place.own else None, sleeps, words)


def members(stories: Sequence[RankStory], group: str) -> list[RankStory]:
    """Who has called something in this group; everybody in the first one, and of gradients."""
    if group in ("", "0", "default_pg", "gradients"):
        return list(stories)
    return [s for s in stories if any(c.group == group for c in s.calls)]
