"""Is it worth trying a dead cell again, and with what?

In: how the attempt ended with its ranked causes, what was tried before, and the limits of the
study. Out: a `Decision` with its reason, for the table. Pure but for looking up whether a change
applies to the command.

Only a cause that can be gone the next time is tried again: one of chance (a crash in native code, a
network, a kill from outside), or one for which the catalogue has a `safe` remedy that rerail can
apply by itself. A wrong shape or a missing file would fail the same way for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerail.catalogue import Cause
from rerail.errors import UsageError
from rerail.investigation.applies import DoesNotApply, apply_changes
from rerail.investigation.changes import Change, parse_change
from rerail.investigation.profile import Profile

DEFAULT_RETRIES = 2

# What may go well the next time, with nothing changed.
OF_CHANCE = {
    *(
        "native-segfault",
        "heap-corruption",
        "worker-crashed",
        "loader-hang",
        "import-order-conflict",
    ),
    *("network-unavailable", "port-in-use", "rendezvous-failed", "nccl-network-failed"),
    *("collective-timeout", "peer-died", "gpu-hardware-fault", "cuda-library-failed"),
    *("scheduler-stopped", "terminal-closed", "user-interrupt"),
    "checkpoint-corrupt",  # the damaged one is set aside: it goes on from an older one, or anew
}
# Only with a remedy: as it was, it would run into the same limit or conflict.
NEEDS_REMEDY = {
    *("host-oom", "host-alloc-failed", "shm-exhausted", "fd-exhausted", "thread-limit"),
    *("gpu-fragmentation", "openmp-duplicate-runtime", "threading-layer-conflict"),
    *("fork-after-threads", "macos-fork-unsafe", "cuda-after-fork", "static-tls-exhausted"),
    *("pickle-failed", "spawn-main-guard"),
}
# Variables whose value in the catalogue means the same on every machine. Others (a path, the name
# of a network interface) stand there as examples for a person.
_SAME_EVERYWHERE = {
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("MKL_THREADING_LAYER", "GLIBC_TUNABLES", "PYTORCH_CUDA_ALLOC_CONF"),
}
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"}
_SURE = 0.5


@dataclass(frozen=True)
class Ended:
    """What is known of an attempt that did not finish."""

    kind: str  # signal, exit, hang, unknown, as in the contract
    signal: str | None
    cause: Cause | None
    probability: float
    is_recorded: bool = False  # the kernel's own record speaks for the cause
    in_worker: bool = False  # it was a DataLoader worker that died
    lost: bool = False  # its recorder was killed too: nobody knows how it ended


@dataclass(frozen=True)
class Decision:
    retries: bool
    changes: tuple[str, ...]  # all that the next attempt runs with
    why: str


def decide(
    ended: Ended,
    tried: int,
    limits: Mapping[str, int],
    changes: Sequence[str],
    command: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile,
    worker_remedies: Cause | None = None,
) -> Decision:
    """`tried`: retries after this cause so far; `changes`: what the attempt was run with."""
    name = ended.cause.id if ended.cause else None
    allowed = limits.get(name or "", limits.get("default", DEFAULT_RETRIES))
    chance = _chance(ended)
    if chance is None and (name is None or name not in NEEDS_REMEDY):
        return Decision(False, (), "trying again would not help")
    if tried >= allowed:
        times = "once" if allowed == 1 else f"{allowed} times"
        return Decision(False, (), f"tried again {times}" if allowed else "retries are off")
    causes = [
        cause for cause in (ended.cause, worker_remedies if ended.in_worker else None) if cause
    ]
    # A crash by chance is first tried as it was: a remedy that is not needed costs speed.
    if chance is None or tried > 0:
        for remedy, added in _remedies(causes, changes, command, environ, profile):
            return Decision(True, (*changes, *added), f"again with {', '.join(added)} ({remedy})")
    if chance is not None:
        return Decision(True, tuple(changes), f"again as it was: {chance}")
    return Decision(False, (), "no safe remedy of it applies")


def _chance(ended: Ended) -> str | None:
    """Why it may go well with nothing changed."""
    if ended.lost:
        return "its recorder was killed"
    is_sure = ended.cause is not None and ended.probability >= _SURE
    if ended.signal == "SIGKILL" and not ended.is_recorded:
        is_sure = False
    if is_sure and ended.cause is not None and ended.cause.id in OF_CHANCE:
        return "it may not come back"
    if ended.signal in _FROM_OUTSIDE and not is_sure:
        return f"{ended.signal} came from outside"
    if ended.kind == "hang" and not is_sure:
        return "it may not hang again"
    return None


def _remedies(
    causes: Sequence[Cause],
    changes: Sequence[str],
    command: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile,
) -> list[tuple[str, tuple[str, ...]]]:
    """Safe ones that can be applied without a person and have not been."""
    taken = {parse_change(text).knob for text in changes}
    found = []
    for cause in causes:
        for remedy in cause.remedies:
            if remedy.safety != "safe" or not remedy.change:
                continue
            parsed = _parsed(remedy.change)
            if parsed is None or any(each.knob in taken for each in parsed):
                continue
            try:
                apply_changes(command, environ, parsed, profile)
            except DoesNotApply:
                continue
            found.append((remedy.id, remedy.change))
    return found


def _parsed(texts: Sequence[str]) -> list[Change] | None:
    found = []
    for text in texts:
        try:
            change = parse_change(text)
        except UsageError:
            return None
        if change.kind != "own" and change.knob not in _SAME_EVERYWHERE:
            return None
        found.append(change)
    return found
