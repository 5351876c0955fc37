"""Is it worth trying a dead cell again, and with what?

In: how the attempt ended with its leading cause, what was tried before, and the limits of the
study. Out: a `Decision` with its reason, for the table.

Only a cause that can be gone the next time is tried again: one of chance (a crash in native code, a
network, a kill from outside), or one for which the catalogue has a `safe` remedy that rerail can
apply by itself. A wrong shape or a missing file would fail the same way for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerail.changes import Profile
from rerail.diagnosis import Candidate
from rerail.remedies import Applied, prescribe

DEFAULT_RETRIES = 2

# What may go well the next time, with nothing changed.
OF_CHANCE = {
    *("native-segfault", "heap-corruption", "worker-crashed", "loader-hang"),
    *("import-order-conflict", "network-unavailable", "port-in-use", "rendezvous-failed"),
    *("nccl-network-failed", "collective-timeout", "peer-died", "gpu-hardware-fault"),
    *("cuda-library-failed", "scheduler-stopped", "terminal-closed", "user-interrupt"),
    "checkpoint-corrupt",  # the damaged one is set aside: it goes on from an older one, or anew
}
# Only with a remedy: as it was, it would run into the same limit or conflict.
NEEDS_REMEDY = {
    *("host-oom", "host-alloc-failed", "shm-exhausted", "fd-exhausted", "thread-limit"),
    *("gpu-fragmentation", "openmp-duplicate-runtime", "threading-layer-conflict"),
    *("fork-after-threads", "macos-fork-unsafe", "cuda-after-fork", "static-tls-exhausted"),
    *("pickle-failed", "spawn-main-guard"),
}
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


def decide(
    ended: Ended,
    tried: int,
    limits: Mapping[str, int],
    setting: Setting,
    worker_crashed: Candidate | None = None,
) -> Decision:
    """`tried`: retries after this cause so far; `worker_crashed`: the catalogue's, for workers."""
    allowed = limits.get(ended.cause or "", limits.get("default", DEFAULT_RETRIES))
    chance = _chance(ended)
    needs_remedy = ended.is_sure and ended.cause in NEEDS_REMEDY
    if chance is None and not needs_remedy:
        return Decision(False, (), "trying again would not help")
    if tried >= allowed:
        times = "once" if allowed == 1 else f"{allowed} times"
        return Decision(False, (), f"tried again {times}" if allowed else "retries are off")
    # A crash by chance is first tried as it was: a remedy that is not needed costs speed.
    if needs_remedy or (tried > 0 and ended.is_sure):
        causes = [ended.leading, worker_crashed if ended.in_worker else None]
        for cause in filter(None, causes):
            remedy = _remedy(cause, setting)
            if remedy is not None:
                changes = (*setting.changes, *remedy.changes)
                words = f"again with {', '.join(remedy.changes)} ({remedy.safety}: {remedy.id})"
                return Decision(True, changes, words)
    if chance is not None:
        return Decision(True, setting.changes, f"again as it was: {chance}")
    return Decision(False, (), "no safe remedy of it applies")


def _chance(ended: Ended) -> str | None:
    """Why it may go well with nothing changed."""
    if ended.is_lost:
        return "its recorder was killed"
    if ended.was_told_to_end:
        return f"{ended.signal} came from outside"
    if ended.is_sure:
        return "it may not come back" if ended.cause in OF_CHANCE else None
    if ended.signal in FROM_OUTSIDE:
        return f"{ended.signal} came from outside"
    if ended.in_worker:
        return "a DataLoader worker crashed, which may not come back"
    return "it may not hang again" if ended.kind == "hang" else None


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
