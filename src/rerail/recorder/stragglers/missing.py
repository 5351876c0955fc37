"""Which rank has not entered the collective that the others wait in? Pure.

In: the black boxes of the ranks, the time, and how long a step takes them. Out: `Missing`, once
they have waited for longer than a slow step explains. It is said while the run still waits: the
timeout of gloo or NCCL comes after ten minutes or thirty, and names the ranks that waited.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from rerail.records import BlackBox, CollectiveCall
from rerail.wording import listed, seconds_in_words

LEAST_SECONDS = 10.0
OF_STEPS = 20.0  # a checkpoint, an evaluation on one rank alone
MOST_NAMED = 6


@dataclass(frozen=True)
class Missing:
    rank: int
    pid: int
    call: CollectiveCall  # as one of those who wait made it
    waiting: tuple[int, ...]  # ranks
    seconds: float

    @property
    def key(self) -> tuple[int, str, int]:
        return self.rank, self.call.group, self.call.sequence

    def text(self, where: str = "") -> str:
        shown = [str(rank) for rank in self.waiting[:MOST_NAMED]]
        more = len(self.waiting) - len(shown)
        who = listed([*shown, f"{more} more"] if more > 0 else shown)
        has = "have" if len(self.waiting) > 1 else "has"
        s = "s" if len(self.waiting) > 1 else ""
        stands = f"; it stands in {where}" if where else ""
        op = "the reduction of gradients" if self.call.op == "gradients" else self.call.op
        return (
            f"rank {self.rank} (pid {self.pid}) has not entered {op} #{self.call.sequence:,}"
            f" in which rank{s} {who} {has} waited for {seconds_in_words(self.seconds)}{stands}"
        )


def find_missing(
    boxes: Sequence[BlackBox],
    now: float,
    step_seconds: float,
    living: Container[int] | None = None,  # pids; None: nobody has died
) -> Missing | None:
    """The rank furthest behind in a group in which all others wait, and nobody has left since."""
    ranks = [box for box in _one_of_each(boxes) if not box.said_goodbye]
    in_one = {box.rank or 0: call for box in ranks if (call := _waits_in(box)) is not None}
    absent = [box for box in ranks if box.rank not in in_one]
    dead = [box.rank for box in ranks if living is not None and box.pid not in living]
    waits = {rank: call for rank, call in in_one.items() if rank not in dead}
    if not waits or len(absent) != 1:
        return None
    box = absent[0]
    call = min(waits.values(), key=lambda each: (each.sequence, each.entered_t_seconds))
    seconds = now - max(each.entered_t_seconds for each in waits.values())
    if seconds < max(LEAST_SECONDS, OF_STEPS * step_seconds):
        return None
    if _sequence(box, call) >= call.sequence:
        return None  # it has been there: they wait for something else
    return Missing(box.rank or 0, box.pid, call, tuple(sorted(waits)), seconds)


def _one_of_each(boxes: Sequence[BlackBox]) -> list[BlackBox]:
    """The process that entered a collective last: not a loader worker of the rank, which has its
    environment, and not the one that had this rank before a restart."""
    found: dict[int, BlackBox] = {}
    for box in boxes:
        known = found.get(box.rank) if box.rank is not None else None
        if box.rank is not None and (known is None or _last_entered(known) < _last_entered(box)):
            found[box.rank] = box
    return list(found.values())


def _last_entered(box: BlackBox) -> float:
    return box.collectives[-1].entered_t_seconds if box.collectives else float("-inf")


def _waits_in(box: BlackBox) -> CollectiveCall | None:
    last = box.collectives[-1] if box.collectives else None
    if last is None or last.left_t_seconds is not None:
        return next((call for call in box.collectives if call.is_waited_for), None)
    return last


def _sequence(box: BlackBox, call: CollectiveCall) -> int:
    """How far it is in the same group."""
    same = [each for each in box.collectives if each.group == call.group]
    return max((each.sequence for each in same), default=0)
