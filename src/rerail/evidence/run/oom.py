"""Did the kernel kill a process for memory?

In: deaths, the counters and kernel lines after death. Out: `oom-kill` observations, or one
`no-oom-kill`.

Three independent witnesses, any one of which is enough: a kernel line that names a pid of the tree,
a cgroup whose oom_kill counter rose during the run, and (weakest, only with SIGKILL in the tree) a
machine-wide oom line. A SIGKILL alone is not one: anybody may send it. And where the kernel's
counter for the whole machine stood still, and memory was not short, that is a witness against it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.evidence.run.exits import crashed_before, is_killed_with_its_pool
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.memory import memory_limits, peak_of, uses_that_press
from rerail.evidence.run.ray_worker import ray_event
from rerail.platform.patterns import linear
from rerail.records import MemoryLimit, Observation, ProcessRecord
from rerail.wording import bytes_in_words, percent, process_in_words, sentence

_KILLED = linear(r"[Kk]illed process (?P<pid>\d+)")
_OOM_KILL = linear(r"oom-kill:constraint=(?P<constraint>\w+).*?\bpid=(?P<pid>\d+)")
_OOM_MEMCG = linear(r"oom_memcg=(?P<path>[^,\s]+)")
# Daemons that kill before the kernel does (systemd-oomd, earlyoom, a pod's eviction) begin here.
_SHORT = 0.8
_MEMCG_WORDS = linear(r"Memory cgroup out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class KernelKill:
    """One process that the kernel's log says it killed for memory."""

    pid: int
    line: int  # index into AfterDeath.kernel_lines
    is_cgroup: bool
    cgroup: str | None


def kernel_kills(lines: list[str]) -> list[KernelKill]:
    """The kills in kernel lines, one per pid: the two lines of one kill are joined."""
    found: dict[int, KernelKill] = {}
    for number, line in enumerate(lines):
        match = _OOM_KILL.search(line) or _KILLED.search(line)
        if match is None:
            continue
        pid = int(match["pid"])
        memcg = _OOM_MEMCG.search(line)
        is_cgroup = "CONSTRAINT_MEMCG" in line or bool(_MEMCG_WORDS.search(line))
        earlier = found.get(pid)
        found[pid] = KernelKill(
            pid=pid,
            line=earlier.line if earlier else number,
            is_cgroup=is_cgroup or bool(earlier and earlier.is_cgroup),
            cgroup=memcg["path"] if memcg else (earlier.cgroup if earlier else None),
        )
    return list(found.values())


def read_oom_kills(run: RecordedRun) -> list[Observation]:
    by_pid = {process.pid: process for process in run.processes}
    counted = [limit for limit in memory_limits(run) if limit.oom_kills > 0]
    found = []
    explained = 0
    for kill in kernel_kills(run.after.kernel_lines):
        process = by_pid.get(kill.pid)
        if process is None:
            continue  # another job on the same machine
        limit = _limit_of(kill, counted or memory_limits(run))
        found.append(_kill(process, limit, f"kernel:{kill.line + 1}", kill))
        explained += 1
    if not explained and counted:
        killed = _killed_without_sender(run)
        source = f"exit:{killed.pid}" if killed else f"kernel:{counted[0].source}"
        found.append(_kill(killed, counted[0], source, None))
    return found or ([] if ray_event(run).get("memory") else _not_for_memory(run))


def _not_for_memory(run: RecordedRun) -> list[Observation]:
    """Also of those that were killed with their pool: some pools say that it may be memory."""
    killed = _killed_without_sender(run)
    with_pool = next((p for p in run.processes if is_killed_with_its_pool(run, p)), None)
    dead = killed or with_pool
    if dead is None:
        return []
    most = next(iter(uses_that_press(run)), None)
    crashed = None if killed else crashed_before(run, dead)
    if crashed is not None:  # whatever the kernel did to other jobs
        text = f"nothing was killed before {process_in_words(crashed)} crashed by itself"
        most = None
    elif most and most.fraction >= _SHORT:
        return []
    elif run.after.machine_oom_kills == 0:
        text = "the kernel killed nothing for memory on this machine during the run"
    elif run.after.machine_oom_kills == _killed_in_other_cgroups(run):
        text = "whatever the kernel killed for memory during the run was in cgroups of other jobs"
        most = None
    else:
        return []
    if most is not None:
        text += f", and at most {percent(most.fraction)} of "
        text += "its memory was" if most.source == "ram" else f"the limit of {most.source} was"
        text += " in use"
    return [
        Observation(
            "no-oom-kill",
            sentence(text),
            f"exit:{dead.pid}",
            {
                "pid": dead.pid,
                "fraction": round(most.fraction, 4) if most else None,
                "is_tidying": killed is None,
            },
        )
    ]


def _killed_in_other_cgroups(run: RecordedRun) -> int:
    """Kills that the kernel's log names; it was asked before whether a counter of ours rose.

    Without a cgroup they do not count: in a container the log has other pids than we have.
    """
    ours = {process.pid for process in run.processes}
    kills = kernel_kills(run.after.kernel_lines)
    return sum(1 for kill in kills if kill.is_cgroup and kill.pid not in ours)


def _limit_of(kill: KernelKill, limits: list[MemoryLimit]) -> MemoryLimit | None:
    cgroups = [limit for limit in limits if limit.source.startswith("cgroup")]
    if not kill.is_cgroup:
        return next((limit for limit in limits if limit.source == "ram"), None)
    if kill.cgroup:
        for limit in cgroups:
            if limit.source.endswith(kill.cgroup):
                return limit
    return cgroups[0] if cgroups else None


def _killed_without_sender(run: RecordedRun) -> ProcessRecord | None:
    forwarded = {str(event.data.get("signal")) for event in run.events_of("signal-forwarded")}
    if "SIGKILL" in forwarded:
        return None
    killed = [
        p
        for p in run.processes
        if p.signal == "SIGKILL"
        and not run.was_ended_by_rerail(p)
        and not is_killed_with_its_pool(run, p)
    ]
    # The first one: later ones are usually what a launcher or rerail ended after it.
    return min(killed, key=lambda p: p.ended_t_seconds or 0.0, default=None)


def _kill(
    process: ProcessRecord | None, limit: MemoryLimit | None, source: str, kill: KernelKill | None
) -> Observation:
    peak_bytes = peak_of(limit) if limit else None
    is_cgroup = kill.is_cgroup if kill else bool(limit and limit.source.startswith("cgroup"))
    who = process_in_words(process) if process else "a process of the run"
    text = f"the kernel's OOM killer killed {who} with SIGKILL"
    if limit is not None and is_cgroup:
        text += f": the cgroup's limit is {bytes_in_words(limit.limit_bytes)}"
        text += f" and {bytes_in_words(peak_bytes)} were used" if peak_bytes else ""
    elif not is_cgroup:
        text += ": the machine was out of memory"
    if kill is None and limit is not None:
        text += f" (its oom_kill counter rose by {limit.oom_kills})"
    return Observation(
        "oom-kill",
        sentence(text),
        source,
        {
            "pid": process.pid if process else None,
            "role": process.role if process else None,
            "rank": process.rank if process else None,
            "limit_bytes": limit.limit_bytes if limit else None,
            "peak_bytes": peak_bytes,
            "cgroup": (limit.source if limit else kill.cgroup if kill else None)
            if is_cgroup
            else None,
            "count": limit.oom_kills if limit and limit.oom_kills else 1,
            "scope": "cgroup" if is_cgroup else "machine",
        },
    )
