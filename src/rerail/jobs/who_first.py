"""Which node of a job failed first?

In: how the nodes stand, and of those with a record when and of what they failed. Out: a `First`, or
None for a job that ended well or still runs. Pure. A node that lost its network or vanished before
anybody failed on their own comes first; else the earliest failure that is not an echo. Silence is
weaker than a fact: a node that a scheduler swept away because another had failed says nothing.
Where all failures are echoes, they waited for somebody: one who left, or who is still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.jobs.standing import Standing

Kind = Literal["lost-network", "vanished", "never-came", "failed", "left", "stuck"]
_SWEEP_SECONDS = 2.0  # within which a scheduler takes the other nodes away


@dataclass(frozen=True)
class Failure:
    """How a node that has a record failed."""

    t: float  # in the job's time
    uncertainty: float
    is_echo: bool
    cause: str | None = None


@dataclass(frozen=True)
class First:
    kind: Kind
    node: str | None  # None: one that never came
    t: float | None = None
    is_certain: bool = True  # False: within what is not known about the clocks


def who_first(
    standings: Sequence[Standing],
    failures: Mapping[str, Failure],
    behind: str | None = None,
    absent: int = 0,
) -> First | None:
    """`behind`: a node with a rank that was not in the collective in which the others waited."""
    own = sorted(
        ((name, each) for name, each in failures.items() if not each.is_echo),
        key=lambda each: each[1].t,
    )
    loss = _first_loss(standings, has_failures=bool(failures))
    if loss is not None and not (own and _was_before(own[0][1], loss, standings)):
        return loss
    if own:
        name, first = own[0]
        is_certain = all(
            other.t - first.t > other.uncertainty + first.uncertainty for _, other in own[1:]
        )
        return First("failed", name, first.t, is_certain)
    if absent and failures:
        return First("never-came", None)
    if failures and (waited_for := _waited_for(standings, failures)) is not None:
        return waited_for
    if behind is not None and failures:
        known = failures.get(behind)
        return First("failed", behind, known.t if known else None)
    if failures:
        name, first = min(failures.items(), key=lambda each: each[1].t)
        others = [each for other, each in failures.items() if other != name]
        is_certain = all(o.t - first.t > o.uncertainty + first.uncertainty for o in others)
        return First("failed", name, first.t, is_certain)
    return First("never-came", None) if absent and not any(_is_fine(s) for s in standings) else None


def _waited_for(standings: Sequence[Standing], failures: Mapping[str, Failure]) -> First | None:
    """All who failed only waited: for a node that left with 0 before, or one that still runs."""
    gave_up = min(each.t for each in failures.values())
    for each in standings:
        if each.state == "ended" and each.last_t is not None and each.last_t < gave_up:
            return First("left", each.name, each.last_t)
    running = [each for each in standings if each.state == "running"]
    running.sort(key=lambda each: each.member.step or 0)
    return First("stuck", running[0].name) if running else None


def _first_loss(standings: Sequence[Standing], *, has_failures: bool) -> First | None:
    found = []
    for each in standings:
        has_gone_badly = each.state in ("failed", "vanished")
        if each.lost_link is not None and has_gone_badly and each.lost_link_t is not None:
            found.append(First("lost-network", each.name, each.lost_link_t))
        elif each.state == "vanished":
            found.append(First("vanished", each.name, each.last_t))
    found.sort(key=lambda first: (first.t is None, first.t or 0.0))
    return found[0] if found else None


def _was_before(failure: Failure, loss: First, standings: Sequence[Standing]) -> bool:
    """Whether a node had failed on its own by the time that the other can have been lost."""
    if loss.t is None:
        return True
    if loss.kind == "lost-network":
        return failure.t < loss.t
    beat = next(s.member.beat_seconds for s in standings if s.name == loss.node)
    return failure.t <= loss.t + beat + _SWEEP_SECONDS + failure.uncertainty


def _is_fine(standing: Standing) -> bool:
    return standing.state in ("ended", "running")
