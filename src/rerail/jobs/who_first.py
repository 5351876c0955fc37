"""Which node of a job failed first?

In: how the nodes stand, and of those with a record when and of what they failed. Out: a `Verdict`,
or None for a job that ended well or still runs. Pure. The rules are those of every first failure
(evidence/first/rules.py). Silence is weaker than a fact: a node that a scheduler swept away after
another one had failed says nothing, so a node that vanished is first only if nobody had failed on
their own by the time at which it can have been lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rerail.evidence import Actor, ActorStanding, Scene, Verdict, Wait
from rerail.jobs.standing import Standing

First = Verdict[Standing]

_SWEEP_SECONDS = 2.0  # within which a scheduler takes the other nodes away
# As the documents of jobs have always said it (docs/jobs.md).
_PUBLISHED = {"link": "lost-network", "silence": "vanished"}


@dataclass(frozen=True)
class Failure:
    """How a node that has a record failed."""

    t: float  # in the job's time
    uncertainty: float
    is_echo: bool
    cause: str | None = None


def who_first(
    standings: Sequence[Standing],
    failures: Mapping[str, Failure],
    behind: str | None = None,
    absent: int = 0,
) -> First | None:
    """`behind`: a node with a rank that was not in the collective in which the others waited."""
    return _Nodes(standings, failures, behind, absent).verdict()


def published(verdict: First) -> str:
    """Return the word by which the document of a job says how the first one failed."""
    if verdict.first is None:
        return "never-came"
    return "failed" if verdict.is_failure else _PUBLISHED.get(verdict.shown_by, verdict.how)


class _Nodes(Scene[Standing]):
    def __init__(
        self,
        nodes: Sequence[Standing],
        failures: Mapping[str, Failure],
        behind: str | None,
        absent: int,
    ) -> None:
        by_name = {node.name: node for node in nodes}
        own = [each for each in failures.values() if not each.is_echo]
        doubt = min(own, key=lambda each: each.t).uncertainty if own else 0.0
        self._failed = [_failed(by_name[name], each) for name, each in failures.items()]
        lost = [each for node in nodes if (each := _lost(node, doubt)) is not None]
        super().__init__([*self._failed, *lost])
        self._nodes = nodes
        self._behind = by_name.get(behind or "")
        self._absent = absent

    def never_came(self) -> First | None:
        return _ABSENT if self._absent and self._failed else None

    def waits(self) -> list[Wait[Standing]]:
        """All who failed only waited: for a node that left before, or one that still runs."""
        if not self._failed:
            return []
        gave_up = min(each.t or 0.0 for each in self._failed)
        ended = [(n, n.last_t) for n in self._nodes if n.state == "ended"]
        left = [_node(n, "left", t) for n, t in ended if t is not None and t < gave_up]
        running = [n for n in self._nodes if n.state == "running"]
        running.sort(key=lambda each: each.member.step or 0)
        return [Wait(self._failed, absent=[*left, *(_node(n) for n in running)])]

    def ended_first(self) -> First | None:
        if self._failed and self._behind is not None:
            name = self._behind.name
            known = [each for each in self._failed if each.actor.name == name]
            first = known[0] if known else _node(self._behind, "exited")
            return Verdict(first.actor, first.how, first)
        is_anybody_fine = any(each.state in ("ended", "running") for each in self._nodes)
        absent = _ABSENT if self._absent and not is_anybody_fine else None
        return super().ended_first() or absent


# Nothing is known of a node that never came.
_ABSENT: First = Verdict(Actor("node", ""), "lost")


def _node(node: Standing, how: str = "", t: float | None = None) -> ActorStanding[Standing]:
    return ActorStanding(Actor("node", node.name), node, how, t)


def _failed(node: Standing, failure: Failure) -> ActorStanding[Standing]:
    how = "killed" if node.member.outcome_kind == "signal" else "exited"
    known = _node(node, how, failure.t)
    return replace(known, doubt=failure.uncertainty, is_echo=failure.is_echo)


def _lost(node: Standing, doubt: float) -> ActorStanding[Standing] | None:
    """`doubt`: seconds by which the end of the earliest failure may be wrong."""
    has_gone_badly = node.state in ("failed", "vanished")
    if node.lost_link is not None and has_gone_badly and node.lost_link_t is not None:
        known = _node(node, "lost", node.lost_link_t)
        return replace(known, latest_t=node.lost_link_t, shown_by="link")
    if node.state != "vanished":
        return None
    slack = node.member.beat_seconds + _SWEEP_SECONDS + doubt
    latest_t = node.last_t + slack if node.last_t is not None else None
    return replace(_node(node, "lost", node.last_t), latest_t=latest_t, shown_by="silence")
