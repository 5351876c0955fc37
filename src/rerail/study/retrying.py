"""Is it worth trying a dead cell again, and with what?

In: how the attempt ended with its leading cause, what was tried before, and the limits of the
study. Out: a `Decision` with its reason, for the table.

Only a cause that can be gone the next time is tried again, as the `retry` of its file says: one of
chance (a crash in native code, a network, a kill from outside), one that an attempt from a
checkpoint may get past, or one for which the catalogue has a `safe` remedy that rerail can apply by
itself. A wrong shape or a missing file would fail the same way for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerail.catalogue import Policy
from rerail.changes import Profile
from rerail.diagnosis import Candidate
from rerail.remedies import Applied, prescribe

DEFAULT_RETRIES = 2

FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"}
_SURE = 0.5


@dataclass(frozen=True)
class Ended:
    """What is known of an attempt that did not finish."""

    kind: str  # signal, exit, hang, unknown, as in the contract
    signal: str | None
    leading: Candidate | None = None
    is_recorded: bool = False  # the kernel's own record speaks for the cause
    in_worker: bool = False  # it was a DataLoader worker that died
    was_told_to_end: bool = False
    is_lost: bool = False  # its recorder was killed too: nobody knows how it ended

    @property
    def cause(self) -> str | None:
        return self.leading.cause.id if self.leading else None

    @property
    def is_sure(self) -> bool:
        """Whether its cause is likely enough to act on; a SIGKILL alone may be anybody's."""
        if self.leading is None or self.is_lost:
            return False
        is_bare_kill = self.signal == "SIGKILL" and not self.is_recorded
        return self.leading.probability >= _SURE and not is_bare_kill

    @property
    def sure_policy(self) -> Policy | None:
        """What its cause's file says, where the cause is likely enough to act on."""
        return self.leading.cause.policy if self.leading is not None and self.is_sure else None


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


def decide(
    ended: Ended,
    tried: int,
    limits: Mapping[str, int],
    setting: Setting,
    worker_crashed: Candidate | None = None,
) -> Decision:
    """`tried`: retries after this cause so far; `worker_crashed`: the catalogue's, for workers."""
    allowed = limits.get(ended.cause or "", limits.get("default", DEFAULT_RETRIES))
    policy = ended.sure_policy
    chance = _chance(ended, resumes=setting.resumes)
    remedy = None
    # What may go well as it was is first tried so: a remedy that is not needed costs speed.
    if policy is not None and (tried > 0 or policy.retry != "unchanged"):
        # A worker dies of what is certain as the main process would: doing without is no remedy.
        is_workers = ended.in_worker and not policy.is_certain
        remedy = _first_remedy([ended.leading, worker_crashed if is_workers else None], setting)
    if chance is None and remedy is None:
        is_open = policy is not None and not policy.is_certain
        why = "no safe remedy of it applies" if is_open else "trying again would not help"
        return Decision(False, (), why)
    if tried >= allowed:
        times = "once" if allowed == 1 else f"{allowed} times"
        return Decision(False, (), f"tried again {times}" if allowed else "retries are off")
    if remedy is not None:
        changes = (*setting.changes, *remedy.changes)
        words = f"again with {', '.join(remedy.changes)} ({remedy.safety}: {remedy.id})"
        return Decision(True, changes, words)
    return Decision(True, setting.changes, f"again as it was: {chance}")


def _chance(ended: Ended, *, resumes: bool) -> str | None:
    """Why it may go well with nothing changed."""
    if ended.is_lost:
        return "its recorder was killed"
    if ended.was_told_to_end:
        return f"{ended.signal} came from outside"
    if (policy := ended.sure_policy) is not None:
        if not policy.may_go_well_unchanged(resumes=resumes):
            return None
        may = "it may not come back"
        return may if policy.retry == "unchanged" else f"from its checkpoint {may}"
    if ended.signal in FROM_OUTSIDE:
        return f"{ended.signal} came from outside"
    if ended.in_worker:
        return "a DataLoader worker crashed, which may not come back"
    return "it may not hang again" if ended.kind == "hang" else None


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
