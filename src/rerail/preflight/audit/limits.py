"""Limits of the machine that a training run meets: files, processes, stack, memory, /dev/shm.

In: the surroundings of a run, and how many loader workers are known. Out: findings. Pure. A limit
that no training is known to meet is "fine", with its value, so that it can be read off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rerail.preflight.audit.finding import Finding
from rerail.wording import bytes_in_words

_MIB = 1 << 20
# A DataLoader worker takes a few pipes; every tensor on its way through shared memory one more.
FILES_PER_WORKER = 40
FILES_OF_A_TRAINING = 200
_ENOUGH_FILES = 1024
_TASKS_OF_A_TRAINING = 64
_SMALL_SHM_BYTES = 64 * _MIB  # what Docker gives
_SMALL_STACK_BYTES = 1 * _MIB
_LITTLE_MEMORY_BYTES = 512 * _MIB


def find_limits(around: Mapping[str, Any], workers: int | None = None) -> list[Finding]:
    limits = around.get("limits") or {}
    memory = around.get("memory") or {}
    groups = around.get("cgroups") or {}
    found = [_files(limits, workers), _tasks(limits, groups, around, workers)]
    found += [_stack(limits), _address_space(limits), _core(limits)]
    found += [_shared_memory(memory, workers), _memory(memory, groups), _overcommit(memory)]
    if (around.get("gpu") or {}).get("devices"):
        found.append(_locked(limits))
    return [finding for finding in found if finding is not None]


def _soft(limits: Mapping[str, Any], name: str) -> tuple[int | None, int | None]:
    value = limits.get(name) or {}
    return value.get("soft"), value.get("hard")


def _files(limits: Mapping[str, Any], workers: int | None) -> Finding | None:
    if "RLIMIT_NOFILE" not in limits:
        return None
    soft, hard = _soft(limits, "RLIMIT_NOFILE")
    if soft is None:
        return Finding("fd-exhausted", "fine", "Open files: no limit")
    needed = FILES_OF_A_TRAINING + FILES_PER_WORKER * (workers or 0)
    if soft >= max(needed, _ENOUGH_FILES):
        return Finding("fd-exhausted", "fine", f"Open files: {soft} at a time")
    can = min(hard, 65536) if hard is not None else 65536
    whose = f"{workers} loader workers" if workers else "loader workers"
    do = [f"ulimit -n {can}"] if can > soft else ["ask for a higher hard limit of open files"]
    do.append("or torch.multiprocessing.set_sharing_strategy('file_system')")
    return Finding(
        "fd-exhausted",
        "risky",
        f"Open files: only {soft} at a time",
        f"{whose[:1].upper()}{whose[1:]} hold a descriptor for every tensor on its way; with"
        f" {needed} or more in use the run ends with 'Too many open files'.",
        tuple(do),
        ("RLIMIT_NOFILE",),
        (f"ulimit -n {can}",) if can > soft else (),
    )


def _tasks(
    limits: Mapping[str, Any],
    groups: Mapping[str, Any],
    around: Mapping[str, Any],
    workers: int | None,
) -> Finding | None:
    cores = (around.get("cpu") or {}).get("logical_cores") or 1
    needed = _TASKS_OF_A_TRAINING + ((workers or 0) + 2) * (cores + 4)
    tightest: tuple[int, str] | None = None
    for group in groups.get("tasks") or ():
        if group.get("limit") is not None:
            left = int(group["limit"]) - int(group.get("current") or 0)
            if tightest is None or left < tightest[0]:
                tightest = (left, f"{group['source']} allows {group['limit']}")
    soft, _ = _soft(limits, "RLIMIT_NPROC")
    if soft is not None and (tightest is None or soft < tightest[0]):
        tightest = (soft, f"RLIMIT_NPROC allows {soft}")
    if tightest is None:
        return None
    left, name = tightest
    if left >= needed:
        return Finding("thread-limit", "fine", f"Threads and processes: {left} more may be started")
    return Finding(
        "thread-limit",
        "risky",
        f"Threads and processes: only {max(0, left)} more may be started",
        f"{name}; a training here needs about {needed}. Past that: can't start new thread.",
        ("raise the limit (docker run --pids-limit, ulimit -u)", "or fewer workers and threads"),
        (name,),
        ("export OMP_NUM_THREADS=1",),
    )


def _stack(limits: Mapping[str, Any]) -> Finding | None:
    soft, _ = _soft(limits, "RLIMIT_STACK")
    if soft is None or soft >= _SMALL_STACK_BYTES:
        return None
    return Finding(
        "stack-overflow",
        "risky",
        f"The stack is limited to {bytes_in_words(soft)}",
        "Threads of native libraries take this as their stack size and overflow it.",
        ("ulimit -s 8192",),
        ("RLIMIT_STACK",),
        ("ulimit -s 8192",),
    )


def _address_space(limits: Mapping[str, Any]) -> Finding | None:
    soft, _ = _soft(limits, "RLIMIT_AS")
    if soft is None:
        return None
    return Finding(
        "host-alloc-failed",
        "risky",
        f"Address space is limited to {bytes_in_words(soft)}",
        "It counts what is reserved, not what is used: torch with its threads reserves many times"
        " what it uses, and the next allocation raises MemoryError or std::bad_alloc.",
        ("ulimit -v unlimited", "limit memory by a cgroup instead"),
        ("RLIMIT_AS",),
        ("ulimit -v unlimited",),
    )


def _core(limits: Mapping[str, Any]) -> Finding | None:
    if "RLIMIT_CORE" not in limits:
        return None
    soft, _ = _soft(limits, "RLIMIT_CORE")
    text = "none are written" if soft == 0 else "written after a crash"
    return Finding("native-segfault", "fine", f"Core files: {text}; rerail needs none")


def _locked(limits: Mapping[str, Any]) -> Finding | None:
    soft, _ = _soft(limits, "RLIMIT_MEMLOCK")
    if soft is None or soft >= 64 * _MIB:
        return None
    return Finding(
        "nccl-network-failed",
        "risky",
        f"Locked memory is limited to {bytes_in_words(soft)}",
        "NCCL over InfiniBand registers buffers as locked memory: ibv_reg_mr fails.",
        ("ulimit -l unlimited",),
        ("RLIMIT_MEMLOCK",),
    )


def _shared_memory(memory: Mapping[str, Any], workers: int | None) -> Finding | None:
    total = memory.get("shm_total_bytes")
    if not total:
        return None
    free = memory.get("shm_free_bytes", total)
    if total > _SMALL_SHM_BYTES and free > _SMALL_SHM_BYTES:
        return Finding("shm-exhausted", "fine", f"/dev/shm: {bytes_in_words(free)} free")
    if workers == 0:
        return Finding(
            "shm-exhausted", "fine", f"/dev/shm: {bytes_in_words(free)}; no workers to need it"
        )
    return Finding(
        "shm-exhausted",
        "risky",
        f"/dev/shm: only {bytes_in_words(free)} free of {bytes_in_words(total)}",
        "Batches of loader workers travel through it; when it is full the worker dies of SIGBUS.",
        (
            "docker run --shm-size=8g, or --ipc=host",
            "or no workers: --try dataloader-workers=0",
            "or torch.multiprocessing.set_sharing_strategy('file_system') with a larger TMPDIR",
        ),
        ("/dev/shm",),
    )


def memory_limit(around: Mapping[str, Any]) -> tuple[int, str] | None:
    """The limit that ends a run first, and where it is set: a cgroup, or the machine's memory."""
    found: list[tuple[int, str]] = []
    for group in ((around.get("cgroups") or {}).get("memory")) or ():
        limit = group.get("limit_bytes")
        if limit and limit < 1 << 60:
            found.append((int(limit), str(group["source"])))
    total = (around.get("memory") or {}).get("total_bytes")
    if total:
        found.append((int(total), "ram"))
    return min(found) if found else None


def memory_room(around: Mapping[str, Any]) -> tuple[int, str] | None:
    """How much a run can still take: what is available under every limit."""
    found: list[tuple[int, str]] = []
    for group in ((around.get("cgroups") or {}).get("memory")) or ():
        limit, used = group.get("limit_bytes"), group.get("usage_bytes") or 0
        if limit and limit < 1 << 60:
            found.append((max(0, int(limit) - int(used)), str(group["source"])))
    available = (around.get("memory") or {}).get("available_bytes")
    if available:
        found.append((int(available), "ram"))
    return min(found) if found else None


def _memory(memory: Mapping[str, Any], groups: Mapping[str, Any]) -> Finding | None:
    around = {"memory": memory, "cgroups": groups}
    limit, room = memory_limit(around), memory_room(around)
    if limit is None or room is None:
        return None
    size, source = limit
    name = "this machine has" if source == "ram" else f"{source} allows"
    swap = memory.get("swap_total_bytes") or 0
    text = f"Memory: {bytes_in_words(room[0])} free; {name} {bytes_in_words(size)}"
    text += f", swap {bytes_in_words(swap)}" if swap else ", no swap"
    if room[0] >= _LITTLE_MEMORY_BYTES:
        return Finding("host-oom", "fine", text)
    return Finding(
        "host-oom",
        "risky",
        text,
        "Importing torch and one batch take more than that; the kernel kills what does not fit.",
        ("end other processes, or raise the limit", "rerail check -- CMD tells what CMD needs"),
        (source,),
    )


def _overcommit(memory: Mapping[str, Any]) -> Finding | None:
    if memory.get("overcommit_memory") != 2:
        return None
    limit = memory.get("commit_limit_bytes") or 0
    return Finding(
        "host-alloc-failed",
        "risky",
        f"The kernel promises no more memory than {bytes_in_words(limit)} (overcommit_memory=2)",
        "Reserved memory counts, used or not; fork() of a large process is refused too.",
        ("sysctl vm.overcommit_memory=0 (as root)", "or start loader workers with spawn"),
        ("vm.overcommit_memory",),
    )
