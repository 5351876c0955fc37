"""Which rank failed first?

In: processes with ranks, their crashes and exceptions. Out: one `failed-first` observation when
two or more ranks failed, or one failed and others were ended because of it.

Time alone is not enough: a rank that raises takes a second to unwind while its peers notice the
closed connection at once. So a rank whose own words are those of an echo (connection closed by
peer, remote process exited) comes after one whose words are not; among equals the earlier end
decides. A rank that was terminated by the launcher never counts as first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import Observation, ProcessRecord
from rerail.wording import counted, listed, seconds_in_words, sentence

ECHO_WORDS = linear(
    r"connection (closed|reset) by peer|broken pipe|remote process (exited|has terminated)"
    r"|socket (closed|timeout)|peer .{0,20}(died|exited|closed)|ncclRemoteError|ncclInProgress"
    r"|NCCL communicator was aborted|another rank|SIGTERM|Signal 15|recvValue failed|EOF on socket",
    re.IGNORECASE,
)
_SOURCE_PLACE = linear(r"^\s*\[[^\]]*\]\s*")
_ENDED_BY_OTHERS = {"SIGTERM", "SIGINT", "SIGHUP"}


@dataclass(frozen=True)
class RankEnd:
    rank: int
    process: ProcessRecord
    t_seconds: float
    reason: str
    is_echo: bool
    was_terminated: bool


def read_failed_first(run: RecordedRun) -> list[Observation]:
    ends = rank_ends(run)
    ranks = {run.rank_of(p) for p in run.processes} - {None}
    if len(ranks) < 2 or not ends:
        return []
    ordered = sorted(ends, key=lambda end: (end.was_terminated, end.is_echo, end.t_seconds))
    first, others = ordered[0], ordered[1:]
    if first.was_terminated:
        return []  # all were ended from outside: nobody failed
    text = f"rank {first.rank} failed first: {first.reason}"
    text += f", {seconds_in_words(first.t_seconds)} after the start"
    if others:
        names = listed([f"rank {other.rank}" for other in others[:8]])
        rest = f" and {counted(len(others) - 8, 'other')}" if len(others) > 8 else ""
        text += f"; the end of {names}{rest} is an echo of it ({others[0].reason})"
    return [
        Observation(
            "failed-first",
            sentence(text),
            f"exit:{first.process.pid}",
            {
                "who": f"rank {first.rank}",
                "rank": first.rank,
                "reason": first.reason,
                "others": [f"rank {other.rank}" for other in others],
                "t_seconds": first.t_seconds,
            },
        )
    ]


def _in_short(kind: str, message: str) -> str:
    """ "RuntimeError: Connection closed by peer": without the place in the C++ source."""
    words = " ".join(_SOURCE_PLACE.sub("", message).split())
    return f"{kind.rpartition('.')[2]}: {words[:70].rstrip('. ')}" if words else kind


def rank_ends(run: RecordedRun) -> list[RankEnd]:
    """Every rank that ended badly, by its earliest sign of failure."""
    crashes = {f"{c.pid}-{c.start_ticks}": c for c in run.crashes}
    found = []
    for process in run.processes:
        rank = run.rank_of(process)
        box = run.box_of(process)
        # Loader workers inherit RANK from their rank's environment; they are not ranks.
        if rank is None or process.role in ("loader-worker", "helper", "launcher", "shell"):
            continue
        crash = crashes.get(process.key)
        failed = process.signal is not None or (process.exit_code or 0) != 0 or crash is not None
        if not failed:
            continue
        t_seconds = (
            process.ended_t_seconds if process.ended_t_seconds is not None else run.end_t_seconds
        )
        words = ""
        if crash is not None:
            reason = f"{crash.signal}"
            t_seconds = (
                min(t_seconds, crash.t_seconds) if crash.t_seconds is not None else t_seconds
            )
        elif box is not None and box.exception_type:
            words = f"{box.exception_type} {box.exception_text or ''}"
            reason = _in_short(box.exception_type, box.exception_text or "")
        else:
            reason = process.signal or f"exit code {process.exit_code}"
        found.append(
            RankEnd(
                rank=rank,
                process=process,
                t_seconds=t_seconds,
                reason=reason,
                is_echo=bool(ECHO_WORDS.search(words)),
                was_terminated=crash is None and process.signal in _ENDED_BY_OTHERS,
            )
        )
    return found
