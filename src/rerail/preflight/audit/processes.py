"""Workers, threads and how processes are started: what would fight over cores or hang after fork.

In: the target. Out: findings from the program's text, the command and the variables. Where the
program cannot be read, it is taken that a training with torch may fork loader workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rerail.platform.command_line import programs, rank_count
from rerail.platform.wrapper_table import MPI_LAUNCHERS
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.known import load
from rerail.preflight.audit.target import Target
from rerail.preflight.audit.variables import threads_asked_for

_FORKSERVER_FROM = (3, 14)  # Python's default start method on Linux from then on


def default_start_method(python: tuple[int, int] | None) -> str:
    if sys.platform == "darwin":
        return "spawn"
    return "forkserver" if python is not None and python >= _FORKSERVER_FROM else "fork"


def start_method(target: Target) -> str:
    methods = target.program.start_methods
    return next(iter(methods), default_start_method(target.python))


def may_fork(target: Target) -> bool:
    if start_method(target) != "fork":
        return False
    if target.has_program:
        return target.program.starts_processes
    return "torch" in target.distributions


def find_process_hazards(target: Target) -> list[Finding]:
    found = _fork_hazards(target) if may_fork(target) else []
    found += _main_guard(target)
    found += _too_many_workers(target)
    found += _oversubscribed(target)
    if not found:
        how = start_method(target)
        found.append(Finding("fork-after-threads", "fine", f"Processes are started by {how}"))
    return found


def _fork_hazards(target: Target) -> list[Finding]:
    found = []
    for hazard in load("fork_hazards")["hazard"]:
        package = target.imported.get(hazard["package"])
        if package is None:
            continue
        unless = hazard.get("unless")
        if unless:
            value = target.environ.get(unless["variable"], "")
            value = target.program.assigned.get(unless["variable"], value)
            if value.lower() in unless["values"]:
                continue
        where = target.who_imports(hazard["module"]) or target.program.forks
        found.append(
            Finding(
                "fork-after-threads",
                "risky",
                f"{package.label} and forked workers",
                f"{package.name}: {hazard['why']}.",
                (hazard["do"],),
                (where,) if where else (),
                (hazard["fix"],) if "fix" in hazard else (),
                hazard["source"],
            )
        )
    return found


def _main_guard(target: Target) -> list[Finding]:
    program = target.program
    if not program.path or program.has_main_guard or not program.starts_processes:
        return []
    if start_method(target) not in ("spawn", "forkserver"):
        return []
    if not program.path.endswith(".py") or Path(program.path).name == "__main__.py":
        return []
    return [
        Finding(
            "spawn-main-guard",
            "fatal",
            f"{Path(program.path).name} starts processes by {start_method(target)} and has no"
            " main guard",
            "Every new process imports the script again and would start processes itself:"
            " Python raises RuntimeError (bootstrapping phase).",
            ('put what the script does under: if __name__ == "__main__":',),
            (program.forks,),
        )
    ]


def usable_cores(around: Mapping[str, Any]) -> int:
    """Cores that the command may really use: affinity, and a cgroup's quota."""
    cpu = around.get("cpu") or {}
    cores = int(cpu.get("usable_cores") or cpu.get("logical_cores") or os.cpu_count() or 1)
    quota = _quota()
    return max(1, min(cores, quota)) if quota else cores


def _quota() -> int | None:
    """Whole cores of a CPU quota, rounded up, in cgroup version 2 or 1."""
    try:
        text = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        allowed, period = text[0], text[1]
    except (OSError, IndexError):
        try:
            allowed = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not allowed.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return max(1, -(-int(allowed) // int(period)))


def _too_many_workers(target: Target) -> list[Finding]:
    workers = target.program.workers or 0
    cores = usable_cores(target.surroundings)
    if workers <= 2 * cores:
        return []
    return [
        Finding(
            "loader-hang",
            "risky",
            f"{workers} loader workers on {cores} cores",
            "Each takes memory, descriptors and /dev/shm, and waits for a core most of the time.",
            (f"at most {cores} workers", f"rerail check --what-if '--workers {cores}' -- CMD"),
        )
    ]


def _oversubscribed(target: Target) -> list[Finding]:
    asked = threads_asked_for(target.environ)
    cores = usable_cores(target.surroundings)
    processes = rank_count(target.command)
    if asked is not None:
        threads, name = asked
        if threads * processes > cores:
            share = max(1, cores // processes)
            return [_too_many_threads(threads, processes, cores, name, share)]
        return []
    logical = int((target.surroundings.get("cpu") or {}).get("logical_cores") or cores)
    # torchrun gives each of several ranks one thread by itself; mpirun does not.
    is_mpi = not MPI_LAUNCHERS.isdisjoint(programs(target.command))
    if is_mpi and processes > 1 and logical * processes > cores:
        return [_too_many_threads(logical, processes, cores, "", max(1, cores // processes))]
    if cores < logical and "torch" in target.imported and _quota():
        return [_too_many_threads(logical, 1, cores, "", cores)]
    return []


def _too_many_threads(threads: int, processes: int, cores: int, name: str, share: int) -> Finding:
    what = f"{name}={threads}" if name else f"torch starts {threads} threads"
    times = f" in each of {processes} processes" if processes > 1 else ""
    return Finding(
        "thread-limit",
        "risky",
        f"{what}{times} on {cores} core{'s' if cores > 1 else ''}",
        "More threads than cores wait for each other at every barrier: the run slows down several"
        " times over, which looks like a hang.",
        (f"OMP_NUM_THREADS={share}",),
        (name or "OMP_NUM_THREADS",),
        (f"export OMP_NUM_THREADS={share}",),
    )
