"""Control groups, version 1 and 2: which limits hold for a process, and how near it is to them.

In: /proc/PID/cgroup and /proc/self/mountinfo. Out: MemoryGroup and TaskGroup objects that read
their counters by `pread` on open descriptors (1 µs each). A limit holds wherever it is set on
the way up to the root, so each process stands under a chain of groups. Promises: what cannot be
read is None; a group that was removed keeps the last values that were read of it; a peak is one
since the group was first looked at, not that of a run before.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

# "No limit" is the largest page-aligned number in version 1, and the word "max" in version 2.
_NO_LIMIT_FROM = 1 << 60


@dataclass(frozen=True)
class Hierarchy:
    """Where one controller's tree is mounted, and which part of the tree that is."""

    version: int
    mount_point: str
    root: str  # the group that the mount point shows; not "/" inside a container

    def folder(self, group: str) -> str:
        """The folder of a group as /proc/PID/cgroup names it."""
        inside = group
        if self.root != "/" and (group == self.root or group.startswith(self.root + "/")):
            inside = group[len(self.root) :]
        if inside.startswith("/.."):  # outside of this cgroup namespace: nothing of it is visible
            inside = "/"
        path = os.path.normpath(self.mount_point + "/" + inside)
        return path if os.path.isdir(path) else self.mount_point  # noqa: PTH112


@dataclass(frozen=True)
class Hierarchies:
    memory: Hierarchy | None = None
    pids: Hierarchy | None = None


def parse_mountinfo(text: str) -> Hierarchies:
    """Find the memory and pids controllers; version 1 wins where it holds the controller."""
    unified: Hierarchy | None = None
    found: dict[str, Hierarchy] = {}
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5 or len(kinds) < 3:
            continue
        root, mount_point = (_unescape(field) for field in fields[3:5])
        if kinds[0] == "cgroup2":
            unified = unified or Hierarchy(2, mount_point, root)
        elif kinds[0] == "cgroup":
            for controller in kinds[2].split(","):
                if controller in ("memory", "pids"):
                    found.setdefault(controller, Hierarchy(1, mount_point, root))
    return Hierarchies(found.get("memory") or unified, found.get("pids") or unified)


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def read_hierarchies() -> Hierarchies:
    try:
        return parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="replace"))
    except OSError:
        return Hierarchies()


def parse_membership(text: str, hierarchies: Hierarchies) -> tuple[str | None, str | None]:
    """The groups of the memory and the pids controller in a /proc/PID/cgroup text."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                groups[controller] = parts[2].removesuffix(" (deleted)")

    def group_of(hierarchy: Hierarchy | None, controller: str) -> str | None:
        if hierarchy is None:
            return None
        return groups.get(controller if hierarchy.version == 1 else "")

    return group_of(hierarchies.memory, "memory"), group_of(hierarchies.pids, "pids")


def chain(group: str) -> list[str]:
    """The group and everything above it: "/a/b" gives /a/b, /a, /."""
    parts = [part for part in group.split("/") if part]
    return ["/" + "/".join(parts[:length]) for length in range(len(parts), -1, -1)]


@dataclass(frozen=True)
class MemoryState:
    """A memory group at one moment."""

    usage_bytes: int | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    fail_count: int | None = None
    oom_kills: int | None = None

    @property
    def fraction(self) -> float:
        """How much of the limit is used; 0 where there is none."""
        if not self.limit_bytes or self.usage_bytes is None:
            return 0.0
        return self.usage_bytes / self.limit_bytes


class _Files:
    """Small kernel files of one folder, kept open."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._fds: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """The content; None where the file does not exist, is refused, or its group is gone."""
        fd = self._fds.get(name)
        try:
            if fd is None:
                fd = self._fds[name] = os.open(self.folder + "/" + name, os.O_RDONLY)
            return os.pread(fd, 4096, 0) if fd >= 0 else None
        except FileNotFoundError:
            self._fds[name] = -1  # this kernel has no such file: do not ask again
            return None
        except OSError:
            return None

    def read_number(self, name: str) -> int | None:
        raw = self.read(name)
        try:
            return int(raw) if raw else None
        except ValueError:
            return None  # "max"

    def read_fields(self, name: str) -> dict[bytes, int]:
        raw = self.read(name) or b""
        words = raw.split()
        return {
            key: int(value)
            for key, value in zip(words[::2], words[1::2], strict=False)
            if value.isdigit()
        }

    def close(self) -> None:
        for fd in self._fds.values():
            if fd >= 0:
                os.close(fd)
        self._fds.clear()


class _Watermark:
    """The kernel's own peak of a group, as far as it is news.

    It is of the group's whole life: what stood there at the first look is of somebody before.
    """

    def __init__(self) -> None:
        self._before: int | None = None

    def since_first_look(self, value: int | None) -> int | None:
        if value is None:
            return None
        if self._before is None:
            self._before = value
        elif value < self._before:
            self._before = 0  # it was set back, so all of it is since then
        return value if value > self._before else None


class MemoryGroup:
    """One memory group: its limit, how much is used, how often it was refused or killed for it."""

    def __init__(self, hierarchy: Hierarchy, group: str) -> None:
        self.group = group
        self.source = f"cgroup-v{hierarchy.version}:{group}"
        self.is_gone = False
        self._version = hierarchy.version
        self._files = _Files(hierarchy.folder(group))
        self._watermark = _Watermark()
        self.state = MemoryState()
        self.read()

    @property
    def folder(self) -> str:
        return self._files.folder

    def read_usage(self) -> MemoryState:
        """Usage and the counters that tell a kill: three reads, for a group near its limit."""
        old = self.state
        if self._version == 1:
            usage = self._files.read_number("memory.usage_in_bytes")
            fails = self._files.read_number("memory.failcnt")
            # Docker sets the limit of memory and swap to the same value: that one is hit first.
            with_swap = self._files.read_number("memory.memsw.failcnt")
            fails = fails if not with_swap else (fails or 0) + with_swap
            kills = self._files.read_fields("memory.oom_control").get(b"oom_kill")
        else:
            usage = self._files.read_number("memory.current")
            events = self._files.read_fields("memory.events")
            fails, kills = events.get(b"max"), events.get(b"oom_kill")
        # The group of a version 2 root has no files, but it still exists; a removed one answers
        # ENODEV on everything, and then the last values are worth more than none.
        self.is_gone = usage is None and old.usage_bytes is not None
        if not self.is_gone:
            peak = max(old.peak_bytes or 0, usage or 0) or old.peak_bytes
            self.state = replace(
                old, usage_bytes=usage, peak_bytes=peak, fail_count=fails, oom_kills=kills
            )
        return self.state

    def read(self) -> MemoryState:
        """Everything: usage, counters, limit and the kernel's own peak, if it rose since."""
        self.read_usage()
        if self.is_gone:
            return self.state
        if self._version == 1:
            limit = self._files.read_number("memory.limit_in_bytes")
            peak = self._files.read_number("memory.max_usage_in_bytes")
        else:
            limit = self._files.read_number("memory.max")
            peak = self._files.read_number("memory.peak")
        if limit is not None and limit >= _NO_LIMIT_FROM:
            limit = None
        peak = self._watermark.since_first_look(peak)
        peaks = [value for value in (peak, self.state.peak_bytes) if value is not None]
        self.state = replace(
            self.state, limit_bytes=limit, peak_bytes=max(peaks) if peaks else None
        )
        return self.state

    def close(self) -> None:
        self._files.close()


class TaskGroup:
    """One pids group: how many tasks it holds and may hold."""

    def __init__(self, hierarchy: Hierarchy, group: str) -> None:
        self.group = group
        self.source = f"cgroup-v{hierarchy.version}:{group}"
        self._files = _Files(hierarchy.folder(group))
        self._watermark = _Watermark()
        self.current: int | None = None
        self.limit: int | None = None
        self.peak: int | None = None
        self.refused = 0  # forks and threads that the kernel refused, since the group exists
        self.read()

    def read(self) -> None:
        current = self._files.read_number("pids.current")
        if current is None:
            return
        self.current = current
        self.limit = self._files.read_number("pids.max")
        kernel_peak = self._watermark.since_first_look(self._files.read_number("pids.peak")) or 0
        self.peak = max(self.peak or 0, current, kernel_peak)
        self.refused = self._files.read_fields("pids.events").get(b"max", self.refused)

    def close(self) -> None:
        self._files.close()


class GroupsOfTree:
    """The groups that processes of the tree were seen in, each opened once."""

    def __init__(self, hierarchies: Hierarchies | None = None) -> None:
        self._hierarchies = hierarchies or read_hierarchies()
        self._membership_seen: set[bytes] = set()
        self.memory: dict[str, MemoryGroup] = {}
        self.tasks: dict[str, TaskGroup] = {}
        self.stood_in: set[str] = set()  # memory groups that held a process, not only above one

    @property
    def memory_version(self) -> int:
        return self._hierarchies.memory.version if self._hierarchies.memory is not None else 2

    def note_process(self, pid: int) -> bool:
        """Look up where a process is; True if that brought a group not seen before."""
        try:
            fd = os.open(f"/proc/{pid}/cgroup", os.O_RDONLY)
        except OSError:
            return False
        try:
            raw = os.read(fd, 65536)
        except OSError:
            return False
        finally:
            os.close(fd)
        if raw in self._membership_seen:
            return False
        self._membership_seen.add(raw)
        memory, pids = parse_membership(raw.decode(errors="replace"), self._hierarchies)
        known = len(self.memory) + len(self.tasks)
        if memory is not None and self._hierarchies.memory is not None:
            self.stood_in.add(memory)
            for group in chain(memory):
                if group not in self.memory:
                    self.memory[group] = MemoryGroup(self._hierarchies.memory, group)
        if pids is not None and self._hierarchies.pids is not None:
            for group in chain(pids):
                if group not in self.tasks:
                    self.tasks[group] = TaskGroup(self._hierarchies.pids, group)
        return len(self.memory) + len(self.tasks) > known

    def close(self) -> None:
        for memory in self.memory.values():
            memory.close()
        for tasks in self.tasks.values():
            tasks.close()
