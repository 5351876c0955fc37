"""What the kernel knew of the tree's death: limits, OOM counters, kernel lines, core files.

`begin()` before the command starts, `note_process` while processes live, `poll()` about ten times
a second and whenever a process ends, `finish()` once the tree is gone. Promises: an OOM kill is
told from any other SIGKILL by counters read before and after, also when the cgroup is removed
right afterwards: counters of groups near their limit are read at every poll, and the kernel's own
line names the pid, the group and its limit. Nothing here raises or blocks; what could not be read
is said in `missing`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.platform.cgroup import GroupsOfTree, MemoryState, chain
from rerail.platform.procfs import find_number
from rerail.recorder.kernel import cores
from rerail.recorder.kernel.log import KernelLog, OomKill, find_oom_kills
from rerail.records import AfterDeath, MemoryLimit

# A group this full is read at every poll: from here to a kill can be a fraction of a second.
NEAR_LIMIT = 0.7
POLLS_PER_ROUND = 10  # other groups, and where the first process stands: about once a second
YOUNG_SECONDS = 3.0  # a wrapper moves itself into a cgroup in its first moments
MOST_YOUNG_PER_POLL = 4
_CPU = "RLIMIT_CPU"
# A program may lower its own limits at any time, so each is read again when it is its turn.
LIMITS = {
    "RLIMIT_AS": b"Max address space",
    "RLIMIT_CPU": b"Max cpu time",
    "RLIMIT_FSIZE": b"Max file size",
    "RLIMIT_NOFILE": b"Max open files",
    "RLIMIT_NPROC": b"Max processes",
}


@dataclass
class _Noted:
    """A process under watch."""

    pid: int
    since: float
    limits: dict[str, int] = field(default_factory=dict)  # soft ones, where there are any
    address_space_peak: int | None = None
    folder: Path | None = None


@dataclass
class KernelWatch:
    """Watches the limits of one run."""

    groups: GroupsOfTree = field(default_factory=GroupsOfTree)
    log: KernelLog = field(default_factory=KernelLog)
    began_unix: float = field(default_factory=time.time)
    _noted: dict[int, _Noted] = field(default_factory=dict)
    _living: dict[int, _Noted] = field(default_factory=dict)  # of these, the ones not seen to end
    _memory_before: dict[str, MemoryState] = field(default_factory=dict)
    _refused_before: dict[str, int] = field(default_factory=dict)
    _oom_kills_before: int | None = None
    _polls: int = 0
    _turn: int = 0
    _young_until: float = 0.0

    def __post_init__(self) -> None:
        self._oom_kills_before = read_machine_oom_kills()
        self._look_up(os.getpid())  # the command starts where the recorder is

    def note_process(self, pid: int) -> None:
        """A process of the tree, soon after it appeared; again whenever it may have moved."""
        self._look_up(pid)
        noted = self._noted.get(pid)
        if noted is None:
            noted = self._noted[pid] = self._living[pid] = _Noted(pid, time.monotonic())
            self._young_until = noted.since + YOUNG_SECONDS
            noted.folder = _working_folder(pid)
        noted.limits = read_limits(pid) or noted.limits

    def note_last_limits(self, pid: int) -> None:
        """Of a process that has ended and is not reaped: it may have lowered them a moment ago.

        The kernel raises the limit on CPU time by a second when it sends SIGXCPU.
        """
        noted = self._noted.get(pid)
        if noted is not None:
            for name, value in (read_limits(pid) or {}).items():
                noted.limits[name] = min(value, noted.limits.get(name, value))

    def poll(self) -> None:
        """Cheap: only groups near their limit and processes that have just started."""
        self._polls += 1
        is_round = self._polls % POLLS_PER_ROUND == 0
        now = time.monotonic()
        for pid in self._whose_turn(now):
            self._look_up(pid)
            self._watch_limits(self._noted[pid])
        for group in self.groups.memory.values():
            if group.is_gone:
                continue
            if is_round:
                group.read()
            elif group.state.fraction >= NEAR_LIMIT:
                self._read_below(group.group)
        if is_round:
            for tasks in self.groups.tasks.values():
                tasks.read()

    def finish(self, processes: Iterable[Any] = ()) -> AfterDeath:
        """The account after the tree has ended; `processes` are records or (pid, start) pairs."""
        for group in self.groups.memory.values():
            group.read()
        for tasks in self.groups.tasks.values():
            tasks.read()
        known = list(processes)
        pids = {_pid_of(process) for process in known} | set(self._noted)
        died_of_a_signal = any(getattr(process, "signal", None) for process in known)
        lines = self.log.lines(may_ask_programs=died_of_a_signal)
        kills = find_oom_kills(lines)
        after = AfterDeath(
            kernel_lines=lines,
            memory_limits=self._memory_limits(kills, pids),
            task_limits=self._task_limits(),
            process_limits=self._lowest_limits(),
            core_files=self._core_files(),
            crash_reports=self._crash_reports(pids, died_of_a_signal),
            machine_oom_kills=self._machine_oom_kills(),
            missing=self._missing(died_of_a_signal),
        )
        self.groups.close()
        return after

    def _read_below(self, name: str) -> None:
        """The group and those inside it: a kill is counted where the process stood."""
        for group in self.groups.memory.values():
            if group.group == name or group.group.startswith(name.rstrip("/") + "/"):
                group.read_usage()

    def _look_up(self, pid: int) -> None:
        if self.groups.note_process(pid):
            for source, group in self.groups.memory.items():
                self._memory_before.setdefault(source, group.state)
            for source, tasks in self.groups.tasks.items():
                self._refused_before.setdefault(source, tasks.refused)

    def _whose_turn(self, now: float) -> list[int]:
        """Young processes at every poll, the others in turn."""
        if now < self._young_until:
            young = [
                noted.pid for noted in self._living.values() if now - noted.since < YOUNG_SECONDS
            ]
        else:
            young = []
        if self._polls % 5 and not young:
            return []
        living = list(self._living)
        if not living:
            return []
        self._turn = (self._turn + 1) % len(living)
        turn = [living[self._turn]]
        if self._polls % POLLS_PER_ROUND == 0:
            turn.append(living[0])
        return list(dict.fromkeys(young[-MOST_YOUNG_PER_POLL:] + turn))

    def _watch_limits(self, noted: _Noted) -> None:
        limits = read_limits(noted.pid)
        if limits is None:
            self._living.pop(noted.pid, None)
            return
        before = noted.limits.get(_CPU)
        if before is not None and limits.get(_CPU) == before + 1:
            limits[_CPU] = before  # the kernel has raised it, and sent SIGXCPU
        noted.limits = limits
        if "RLIMIT_AS" not in limits:
            return
        try:
            status = Path(f"/proc/{noted.pid}/status").read_bytes()
        except OSError:
            return
        peak = find_number(status, b"VmPeak:")
        if peak is not None:
            noted.address_space_peak = max(noted.address_space_peak or 0, peak * 1024)

    def _memory_limits(self, kills: list[OomKill], pids: set[int]) -> list[MemoryLimit]:
        ours = [kill for kill in kills if kill.pid in pids]
        counted = self._kills_by_limited_group(ours)
        limits: list[MemoryLimit] = []
        for name, group in self.groups.memory.items():
            told = [kill for kill in ours if kill.cgroup == name]
            limit = group.state.limit_bytes
            if limit is None and told:
                limit = told[-1].limit_bytes
            if limit is None:
                continue
            before = self._memory_before.get(name, MemoryState())
            peak, fails = group.state.peak_bytes, group.state.fail_count or 0
            if told:  # a kill happens at the limit, even if our last look was before that
                peak, fails = max(peak or 0, limit), max(fails, told[-1].fail_count or 0)
            limits.append(
                MemoryLimit(
                    source=group.source,
                    limit_bytes=limit,
                    peak_bytes=peak,
                    oom_kills=counted.get(name, 0),
                    fail_count=max(fails - (before.fail_count or 0), 0),
                )
            )
        limits += self._limits_only_the_log_knows(ours)
        limits += self._address_space_limits()
        machine = self._machine_limit(ours, counted)
        return limits + ([machine] if machine is not None else [])

    def _kills_by_limited_group(self, told: list[OomKill]) -> dict[str, int]:
        """Kills, by the group whose limit was hit; "" where no limit of a group explains them.

        The kernel counts a kill where the process stood, which may be below the group that holds
        the limit. Its log names the right one; without the log it is the fullest on the way up.
        """
        counted: dict[str, int] = {}
        for kill in told:
            if kill.cgroup is not None:
                counted[kill.cgroup] = counted.get(kill.cgroup, 0) + 1
        if told:
            return counted
        for name in self.groups.stood_in:
            before = self._memory_before.get(name, MemoryState())
            kills = (self.groups.memory[name].state.oom_kills or 0) - (before.oom_kills or 0)
            if kills <= 0:
                continue
            limited = [
                group
                for above in chain(name)
                if (group := self.groups.memory.get(above)) and group.state.limit_bytes
            ]
            fullest = max(
                limited,
                key=lambda g: (g.state.peak_bytes or 0) / (g.state.limit_bytes or 1),
                default=None,
            )
            where = fullest.group if fullest is not None else ""
            counted[where] = counted.get(where, 0) + kills
        return counted

    def _limits_only_the_log_knows(self, kills: list[OomKill]) -> list[MemoryLimit]:
        """Groups that came, killed and went between two looks."""
        unknown: dict[str, list[OomKill]] = {}
        for kill in kills:
            if kill.cgroup is not None and kill.cgroup not in self.groups.memory:
                unknown.setdefault(kill.cgroup, []).append(kill)
        return [
            MemoryLimit(
                source=f"cgroup-v{self.groups.memory_version}:{name}",
                limit_bytes=of_group[-1].limit_bytes or 0,
                peak_bytes=of_group[-1].limit_bytes,
                oom_kills=len(of_group),
                fail_count=of_group[-1].fail_count or 0,
            )
            for name, of_group in unknown.items()
        ]

    def _address_space_limits(self) -> list[MemoryLimit]:
        limited = [n for n in self._noted.values() if "RLIMIT_AS" in n.limits]
        if not limited:
            return []
        nearest = max(limited, key=lambda n: (n.address_space_peak or 0) / n.limits["RLIMIT_AS"])
        return [MemoryLimit("RLIMIT_AS", nearest.limits["RLIMIT_AS"], nearest.address_space_peak)]

    def _lowest_limits(self) -> dict[str, int]:
        lowest: dict[str, int] = {}
        for noted in self._noted.values():
            for name, limit in noted.limits.items():
                lowest[name] = min(limit, lowest.get(name, limit))
        return lowest

    def _machine_limit(self, told: list[OomKill], counted: dict[str, int]) -> MemoryLimit | None:
        total = read_total_bytes()
        if total is None:
            return None
        if self.log.missing is None:
            oom_kills = sum(kill.cgroup is None for kill in told)
        else:
            # Without the log: kills that our own groups counted and no limit of theirs explains.
            # The machine's counter covers everybody's cgroups and is only the upper bound.
            oom_kills = min(self._machine_oom_kills() or 0, counted.get("", 0))
        return MemoryLimit("ram", total, None, oom_kills)

    def _machine_oom_kills(self) -> int | None:
        now = read_machine_oom_kills()
        if now is None or self._oom_kills_before is None:
            return None
        return now - self._oom_kills_before

    def _task_limits(self) -> list[dict[str, Any]]:
        return [
            {
                "path": tasks.source,
                "max": tasks.limit,
                "peak": tasks.peak,
                "refused": tasks.refused - self._refused_before.get(name, 0),
            }
            for name, tasks in self.groups.tasks.items()
            if tasks.limit is not None
        ]

    def _core_files(self) -> list[str]:
        folders = {noted.folder for noted in self._noted.values() if noted.folder is not None}
        return cores.find_core_files(cores.read_core_pattern(), sorted(folders), self.began_unix)

    def _crash_reports(self, pids: set[int], died_of_a_signal: bool) -> list[str]:
        if sys.platform != "darwin":
            return []
        from rerail.recorder.kernel import macos

        return macos.collect_reports(pids, self.began_unix, wait=died_of_a_signal)

    def _missing(self, died_of_a_signal: bool) -> list[str]:
        missing: list[str] = []
        if self.log.missing is not None and sys.platform == "linux":
            missing.append(f"kernel lines: {self.log.missing}")
        pattern = cores.read_core_pattern()
        if died_of_a_signal and pattern.startswith("|"):
            missing.append(f"core file: the kernel hands cores to {pattern[1:].split()[0]}")
        return missing


def begin() -> KernelWatch:
    """Before the command starts: note where counters and the kernel's log stand."""
    return KernelWatch()


def read_machine_oom_kills() -> int | None:
    """OOM kills of the whole machine since boot, in whatever cgroup."""
    try:
        return find_number(Path("/proc/vmstat").read_bytes(), b"oom_kill ")
    except OSError:
        return None


def read_total_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def read_limits(pid: int) -> dict[str, int] | None:
    """The soft limits of a process that it really has; None once it is gone."""
    try:
        text = Path(f"/proc/{pid}/limits").read_bytes()
    except OSError:
        return None
    found = {name: find_number(text, label) for name, label in LIMITS.items()}
    return {name: limit for name, limit in found.items() if limit is not None and limit > 0}


def _working_folder(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _pid_of(process: Any) -> int:
    return int(process.pid if hasattr(process, "pid") else process[0])
