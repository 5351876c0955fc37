"""The machine around the tree: memory, swap, /dev/shm, disks, load, pressure, cgroups, GPUs.

In: the folders whose disks matter and the pids of the tree. Out: a dict with the names of
vitals_columns.py. Promises: `read` never blocks on a disk or a driver. A network file system
that hangs blocks statvfs for ever, and NVML blocks on a sick GPU: both are asked from daemon
threads, and while one of them is stuck its values are left out rather than repeated as fresh.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rerail.platform.bare_platform import is_bare
from rerail.platform.cgroup import GroupsOfTree, MemoryGroup, TaskGroup
from rerail.platform.procfs import find_number
from rerail.vitals_columns import MACHINE_COLUMNS, MEMINFO

_FROM_MEMINFO = [
    (column.name, column.label.encode(), column.times)
    for column in MACHINE_COLUMNS
    if column.source == MEMINFO
]
_PRESSURE = re.compile(rb"^(some|full) avg10=([\d.]+)", re.MULTILINE)

DISK_PERIOD_SECONDS = 2.0
GPU_PERIOD_SECONDS = 5.0
_STALE_AFTER_PERIODS = 3
MOST_MOUNT_NAMESPACES = 8


def parse_meminfo(text: bytes) -> dict[str, float]:
    """What is declared to stand there."""
    values: dict[str, float] = {}
    for name, label, times in _FROM_MEMINFO:
        found = find_number(text, label)
        if found is None and name == "available_bytes":
            found = find_number(text, b"MemFree:")  # before Linux 3.14
        if found is not None:
            values[name] = found * times
    return values


def parse_pressure(text: bytes) -> dict[str, float]:
    return {
        f"psi_memory_{name.decode()}_avg10": float(value) for name, value in _PRESSURE.findall(text)
    }


def _mount_namespace(process: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")  # noqa: PTH115 (on the hot path)
    except OSError:
        return ""


class _AskedFromAThread:
    """Values that a call which may block brings in, as long as they are fresh."""

    def __init__(self, ask: Callable[[], dict[str, float]], period_seconds: float) -> None:
        self._ask = ask
        self._period_seconds = period_seconds
        self._values: dict[str, float] = {}
        self._asked_at = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def values(self) -> dict[str, float]:
        # Started on the first use and not earlier: a thread that exists before the command is
        # forked would be one more thing that could go wrong in the child.
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rerail-vitals", daemon=True)
            self._thread.start()
        age_seconds = time.monotonic() - self._asked_at
        return self._values if age_seconds < _STALE_AFTER_PERIODS * self._period_seconds else {}

    def _run(self) -> None:
        while True:
            try:
                self._values = self._ask()
                self._asked_at = time.monotonic()
            except Exception:  # whatever a driver does, the recorder goes on
                return
            if self._stop.wait(self._period_seconds):
                return

    def stop(self) -> None:
        self._stop.set()


class MachineReader:
    """Reads the machine; `read` is meant to be called once or twice a second."""

    def __init__(self, store_dir: Path, cwd: Path) -> None:
        self._folders = {"disk": str(store_dir), "cwd_disk": str(cwd)}
        self._disks = _AskedFromAThread(self._read_disks, DISK_PERIOD_SECONDS)
        self._gpus: _AskedFromAThread | None = None
        if sys.platform == "linux" and _has_nvidia():
            self._gpus = _AskedFromAThread(_nvml_reader(), GPU_PERIOD_SECONDS)
        self._groups = None if is_bare() else GroupsOfTree()
        self._files: dict[str, int] = {}
        self._shm_folders = {_mount_namespace("self"): "/dev/shm"}

    def note_process(self, pid: int) -> None:
        """Learn which cgroups a process stands under, and whether it has mounts of its own."""
        if self._groups is not None:
            self._groups.note_process(pid)
            namespace = _mount_namespace(str(pid))
            if namespace and len(self._shm_folders) < MOST_MOUNT_NAMESPACES:
                # Through the process: a container's /dev/shm has another size than the machine's.
                self._shm_folders.setdefault(namespace, f"/proc/{pid}/root/dev/shm")

    def read(self) -> dict[str, float]:
        values = self._read_memory()
        try:
            values["load_1m"] = round(os.getloadavg()[0], 2)
        except OSError:
            pass
        values.update(self._read_shared_memory())
        values.update(parse_pressure(self._pread("/proc/pressure/memory")))
        values.update(self._read_groups())
        values.update(self._disks.values())
        if self._gpus is not None:
            values.update(self._gpus.values())
        values["recorder_cpu_seconds"] = round(time.process_time(), 3)
        values["recorder_rss_bytes"] = _own_rss_bytes(self._pread("/proc/self/statm"))
        return values

    def _read_shared_memory(self) -> dict[str, float]:
        """The smallest /dev/shm that a process of the tree sees."""
        sizes = []
        for folder in self._shm_folders.values():
            try:
                found = os.statvfs(folder)
            except OSError:  # its process is gone
                continue
            size = found.f_blocks * found.f_frsize
            if size > 0:
                sizes.append((size, size - found.f_bfree * found.f_frsize))
        if not sizes:
            return {}
        total, used = min(sizes)
        return {"shm_total_bytes": total, "shm_used_bytes": used}

    def _read_memory(self) -> dict[str, float]:
        raw = self._pread(MEMINFO)
        if raw:
            return parse_meminfo(raw)
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return {
            "total_bytes": memory.total,
            "available_bytes": memory.available,
            "swap_free_bytes": swap.free,
        }

    def _read_groups(self) -> dict[str, float]:
        if self._groups is None:
            return {}
        values: dict[str, float] = {}
        memory = nearest_memory_group(list(self._groups.memory.values()))
        if memory is not None:
            state = memory.state
            for name, value in (
                ("cgroup_usage_bytes", state.usage_bytes),
                ("cgroup_limit_bytes", state.limit_bytes),
                ("cgroup_failcnt", state.fail_count),
                ("cgroup_oom_kills", state.oom_kills),
            ):
                if value is not None:
                    values[name] = value
        tasks = nearest_task_group(list(self._groups.tasks.values()))
        if tasks is not None and tasks.current is not None:
            values["cgroup_tasks"] = tasks.current
            if tasks.limit is not None:
                values["cgroup_tasks_limit"] = tasks.limit
        return values

    def _read_disks(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, folder in self._folders.items():
            try:
                disk = os.statvfs(folder)
                values[f"{name}_free_bytes"] = disk.f_bavail * disk.f_frsize
                values[f"{name}_total_bytes"] = disk.f_blocks * disk.f_frsize
            except OSError:  # the folder was removed: the other one still counts
                pass
        return values

    def _pread(self, path: str) -> bytes:
        try:
            fd = self._files.get(path)
            if fd is None:
                fd = self._files[path] = os.open(path, os.O_RDONLY)
            return os.pread(fd, 8192, 0) if fd >= 0 else b""
        except OSError:
            self._files.setdefault(path, -1)
            return b""

    def close(self) -> None:
        self._disks.stop()
        if self._gpus is not None:
            self._gpus.stop()
        if self._groups is not None:
            self._groups.close()
        for fd in self._files.values():
            if fd >= 0:
                os.close(fd)
        self._files.clear()


def nearest_memory_group(groups: Sequence[MemoryGroup]) -> MemoryGroup | None:
    """The group nearest to its limit; without limits, the first that was seen (the leaf)."""
    best: MemoryGroup | None = None
    for group in groups:
        if group.is_gone:
            continue
        group.read()
        if group.is_gone or group.state.usage_bytes is None:
            continue
        if best is None or group.state.fraction > best.state.fraction:
            best = group
    return best


def nearest_task_group(groups: Sequence[TaskGroup]) -> TaskGroup | None:
    best: TaskGroup | None = None
    for group in groups:
        group.read()
        if group.current is None or group.limit is None:
            continue
        if best is None or group.current * (best.limit or 1) > (best.current or 0) * group.limit:
            best = group
    return best


def _own_rss_bytes(statm: bytes) -> int:
    if statm:
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    # Only the peak is to be had without /proc; macOS gives it in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _nvml_reader() -> Callable[[], dict[str, float]]:
    """Open NVML inside the thread that asks it: nvmlInit can block as well."""
    from rerail.recorder.vitals import gpu

    session: list[gpu.Nvml | None] = []

    def read() -> dict[str, float]:
        if not session:
            session.append(gpu.open_nvml())
        nvml = session[0]
        if nvml is None:
            raise LookupError("no NVML")
        return nvml.read_vitals()

    return read


def _has_nvidia() -> bool:
    # Asked before anything is loaded: NVML is megabytes, and most machines have no GPU.
    return any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg"))
