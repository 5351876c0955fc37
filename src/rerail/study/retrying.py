"""Is it worth trying a dead cell again, and with what?

In: how the attempts ended, and the limits of the study. Out: a `Decision` with its reason, for the
table. Whether another attempt can end otherwise is for `remedies.why_not_again` to say, as in
`rerail run --restarts`. What belongs to a study alone stands here: how often each cause is tried
again, that a remedy is tried second, and that a cell which was told to end goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.changes import Profile
from rerail.diagnosis import Candidate
from rerail.remedies import Applied, Attempt, Death, prescribe, why_not_again

DEFAULT_RETRIES = 2
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"}


@dataclass(frozen=True)
class Ended:
    """What is known of an attempt that did not finish."""

    death: Death | None = None
    told_by: str = ""  # the signal that told it to end; it ended well then
    in_worker: bool = False  # it was a DataLoader worker that died
    is_lost: bool = False  # its recorder was killed too: nobody knows how it ended

    @property
    def first(self) -> Candidate | None:
        """The likeliest cause, however likely it is."""
        candidates = self.death.candidates if self.death is not None else ()
        if self.death is not None and self.death.failure.kind == "ok":
            return self.death.leading
        return candidates[0] if candidates else None

    @property
    def cause(self) -> str | None:
        return self.first.cause.id if self.first else None

    @property
    def leading(self) -> Candidate | None:
        """Its cause, where that is likely enough to act on."""
        return self.death.leading if self.death is not None and not self.is_lost else None


@dataclass(frozen=True)
class Decision:
    retries: bool
    changes: tuple[str, ...]  # all that the next attempt runs with
    why: str


@dataclass(frozen=True)
class Setting:
    """What the attempt was run with."""

    changes: tuple[str, ...]
    command: Sequence[str]
    environ: Mapping[str, str]
    profile: Profile
    resumes: bool = False  # the next attempt has a checkpoint to go on from
    resumed_from: str = ""  # the checkpoint that the attempt itself went on from


def decide(
    ended: Ended,
    tried: int,
    limits: Mapping[str, int],
    setting: Setting,
    worker_crashed: Candidate | None = None,
    earlier: Sequence[Attempt] = (),
) -> Decision:
    """`tried`: retries after this cause so far; `worker_crashed`: the catalogue's, for workers.

    `earlier`: attempts with the same command that died before this one.
    """
    allowed = limits.get(ended.cause or "", limits.get("default", DEFAULT_RETRIES))
    policy = ended.leading.cause.policy if ended.leading is not None else None
    remedy = None
    # What may go well as it was is first tried so: a remedy that is not needed costs speed.
    if policy is not None and (tried > 0 or policy.retry != "unchanged"):
        # A worker dies of what is certain as the main process would: doing without is no remedy.
        is_workers = ended.in_worker and not policy.is_certain
        remedy = _first_remedy([ended.leading, worker_crashed if is_workers else None], setting)
    why = _why_not(ended, earlier, setting, has_new_remedy=remedy is not None)
    if why is not None:
        return Decision(False, (), why)
    if tried >= allowed:
        times = "once" if allowed == 1 else f"{allowed} times"
        return Decision(False, (), f"tried again {times}" if allowed else "retries are off")
    if remedy is not None:
        changes = (*setting.changes, *remedy.changes)
        words = f"again with {', '.join(remedy.changes)} ({remedy.safety}: {remedy.id})"
        return Decision(True, changes, words)
    return Decision(True, setting.changes, f"again as it was: {_chance(ended, setting.resumes)}")


def _why_not(
    ended: Ended, earlier: Sequence[Attempt], setting: Setting, *, has_new_remedy: bool
) -> str | None:
    death = ended.death
    if ended.is_lost or ended.told_by:
        return None
    if death is None or (death.failure.kind == "ok" and ended.leading is None):
        return "trying again would not help"
    last = begun(len(earlier) + 1, death, setting.resumed_from)
    return why_not_again([*earlier, last], has_new_remedy=has_new_remedy, resumes=setting.resumes)


def begun(number: int, death: Death, resumed_from: str) -> Attempt:
    """An attempt of a cell. Steps before its checkpoint are unknown: a file of the same name may
    have been written again since, so each attempt that went on has a beginning of its own."""
    if not resumed_from:
        return Attempt(number, death.run, death=death)
    return Attempt(
        number, death.run, checkpoint=Path(resumed_from, death.run), base_step=None, death=death
    )


def _chance(ended: Ended, resumes: bool) -> str:
    """Why it may go well with nothing changed."""
    if ended.is_lost:
        return "its recorder was killed"
    if ended.told_by:
        return f"{ended.told_by} came from outside"
    assert ended.death is not None
    failure = ended.death.failure
    if ended.leading is not None:
        needs_checkpoint = ended.leading.cause.policy.retry == "from-checkpoint"
        may = "it may not come back"
        return f"from its checkpoint {may}" if needs_checkpoint and resumes else may
    if failure.signal in _FROM_OUTSIDE:
        return f"{failure.signal} came from outside"
    if ended.in_worker:
        return "a DataLoader worker crashed, which may not come back"
    if failure.kind == "hang":
        return "it may not hang again"
    return "its cause is not sure enough to give it up"


def _first_remedy(causes: Sequence[Candidate | None], setting: Setting) -> Applied | None:
    found = (_remedy(cause, setting) for cause in causes if cause is not None)
    return next((remedy for remedy in found if remedy is not None), None)


def _remedy(cause: Candidate, setting: Setting) -> Applied | None:
    """A safe one that has not been applied yet."""
    applied = set(setting.changes)
    refuted = {
        (cause.cause.id, remedy.id)
        for remedy in cause.cause.remedies
        if remedy.change and set(remedy.change) <= applied
    }
    return prescribe(
        cause,
        allowed=(),
        refuted=refuted,
        command=setting.command,
        environ=setting.environ,
        profile=setting.profile,
    ).remedy
