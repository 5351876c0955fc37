"""How each node of a job stands: ended, failed, vanished, running, or never came.

In: the members and the job's clock. Out: a `Standing` for each, on that clock. Pure. A node has
vanished if its signs stop without a goodbye while others went on, or long before anybody looked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.jobs.clocks import JobClock, Shift
from rerail.jobs.records import LinkChange, Member

State = Literal["ended", "failed", "vanished", "running", "never-came"]

# Beats may be late by this much on a machine that is loaded or a store that is slow.
_LATE_BEATS = 3.0
_LATEST_SECONDS = 8.0
_LONG_AGO_SECONDS = 60.0  # after the last sign, where nobody else went on


@dataclass(frozen=True)
class Standing:
    member: Member
    state: State
    shift: Shift | None = None
    last_t: float | None = None  # its last sign of life, in the job's time
    silent_seconds: float | None = None  # until the last sign of the others
    lost_link: LinkChange | None = None  # that never came back, in the node's own time
    lost_link_t: float | None = None  # in the job's time
    wall_seconds: float | None = None  # by how much its clock is ahead of the first node's

    @property
    def name(self) -> str:
        return self.member.node


def standings(members: Sequence[Member], clock: JobClock) -> list[Standing]:
    lasts = {m.node: _on(clock, m.node, m.last_t) for m in members}
    known = sorted(((t, name) for name, t in lasts.items() if t is not None), reverse=True)[:2]
    reference = next((m for m in members if m.node == clock.reference), None)
    found = []
    for member in members:
        latest = next((t for t, name in known if name != member.node), None)
        own = lasts[member.node]
        silent = latest - own if latest is not None and own is not None else None
        link = _lost_link(member)
        shift = clock.shift(member.node)
        found.append(
            Standing(
                member,
                _state(member, silent),
                shift,
                own,
                silent if silent is not None and silent > 0 else None,
                link,
                _on(clock, member.node, link.t_seconds) if link else None,
                _ahead(member, reference, shift),
            )
        )
    return found


def missing_nodes(members: Sequence[Member], unread: int = 0) -> tuple[int, int, list[int]]:
    """How many came, how many should have, and the ranks of those who did not, where known.
    `unread` have come as well, and who they are is not known."""
    expected = max((m.expected or 0 for m in members), default=0)
    by_task = any(m.rank is not None for m in members)
    ranks = [m.rank if by_task else m.node_rank for m in members]
    known = {rank for rank in ranks if rank is not None}
    absent = sorted(set(range(expected)) - known) if len(known) == len(members) else []
    return len(members) + unread, expected, [] if unread else absent


def _state(member: Member, silent: float | None) -> State:
    if member.has_goodbye:
        return "ended" if member.outcome_kind == "ok" else "failed"
    late = max(_LATE_BEATS * member.beat_seconds, _LATEST_SECONDS)
    age = member.age_seconds
    if silent is not None and silent > late and (age is None or age > late):
        return "vanished"
    return "vanished" if age is not None and age > max(late, _LONG_AGO_SECONDS) else "running"


def _lost_link(member: Member) -> LinkChange | None:
    """An interface that went down while the run lived. One that came back was down all the same."""
    end = member.ended_t if member.ended_t is not None else member.last_t
    downs = [c for c in member.links if not c.is_up and (end is None or c.t_seconds <= end + 1.0)]
    return downs[0] if downs else None


def _ahead(member: Member, reference: Member | None, shift: Shift | None) -> float | None:
    """Both clocks of a machine are known at the start of its run: the difference is the wall's."""
    if reference is None or shift is None or not member.began_unix or not reference.began_unix:
        return None
    return member.began_unix - (reference.began_unix + shift.seconds)


def _on(clock: JobClock, node: str, t_seconds: float | None) -> float | None:
    return None if t_seconds is None else clock.at(node, t_seconds)
