"""The memory of the processes of a tree, each page counted once.

In: pids. Out: a `ProcessMemory` each, and `counted_once` over all. Resident size counts a page that
two processes share twice: a forked worker seems to hold all that its parent holds. The kernel's
proportional sizes share out private and /dev/shm pages within the tree. Pages of files are shared
with strangers too (everybody who uses torch maps libtorch), so libraries count as in the process
that has most of them, and data files by what the tree has touched of each. Where the kernel does
not tell (macOS) the memory that is a process's own stands for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.patterns import linear
from rerail.platform.procfs import read_shared_out

_HEAD = linear(r"^[0-9a-f]+-([0-9a-f]+) (....) \S+ \S+ \d+\s*(.*)$")
_LIBRARY = linear(r"\.so(\.[\w.]+)?$|/(lib)?python[\d.]*$|\.pyc$|/locale-archive$|/gconv")


@dataclass(frozen=True)
class ProcessMemory:
    pid: int
    rss_bytes: int = 0
    anon_bytes: int = 0  # private pages, those shared after fork shared out
    shared_bytes: int = 0  # /dev/shm, shared out
    file_bytes: int = 0  # resident pages of files, libraries and data
    own_bytes: int = 0  # private pages that nobody shares


@dataclass(frozen=True)
class DataMapping:
    """A data file that is mapped into a process, and how much of it has been touched there."""

    path: str
    mapped_bytes: int
    rss_bytes: int
    pss_bytes: int


def read_memory(pid: int) -> ProcessMemory | None:
    found = read_shared_out(pid)
    if found is None:
        return None if Path("/proc/self/smaps_rollup").exists() else _by_psutil(pid)
    return ProcessMemory(
        pid,
        found.rss_bytes,
        found.pss_anon_bytes,
        found.pss_shared_bytes,
        found.rss_file_bytes,
        found.private_bytes,
    )


def _by_psutil(pid: int) -> ProcessMemory | None:
    import psutil

    try:
        process = psutil.Process(pid)
        rss = int(process.memory_info().rss)
        own = int(getattr(process.memory_full_info(), "uss", rss))
    except psutil.Error:
        return None
    return ProcessMemory(pid, rss, own, own_bytes=own)


def read_tree(pids: Iterable[int]) -> list[ProcessMemory]:
    return [memory for pid in pids if (memory := read_memory(pid)) is not None]


def data_mappings(pid: int) -> list[DataMapping]:
    """Files that are mapped and are not libraries; several mappings of one file add up."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text(errors="surrogateescape")
    except OSError:
        return []
    sizes: dict[str, list[int]] = {}
    current: list[int] | None = None
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            path = head[3]
            is_data = path.startswith("/") and "x" not in head[2] and not _LIBRARY.search(path)
            is_data = is_data and not path.startswith(("/dev/", "/SYSV", "/memfd:"))
            current = sizes.setdefault(path, [0, 0, 0]) if is_data else None
        elif current is not None:
            name, _, value = line.partition(":")
            if name in ("Size", "Rss", "Pss"):
                current[("Size", "Rss", "Pss").index(name)] += int(value.split()[0]) * 1024
    return [DataMapping(path, *found) for path, found in sizes.items() if found[0] >= 1 << 20]


def counted_once(
    processes: Sequence[ProcessMemory], mappings: Mapping[int, Sequence[DataMapping]]
) -> tuple[int, int]:
    """What the tree takes, and how much of that is pages of mapped data files."""
    private = sum(process.anon_bytes + process.shared_bytes for process in processes)
    libraries = max(
        (
            process.file_bytes - sum(m.rss_bytes for m in mappings.get(process.pid, ()))
            for process in processes
        ),
        default=0,
    )
    data: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for found in mappings.values():
        for mapping in found:
            data[mapping.path] = data.get(mapping.path, 0) + mapping.pss_bytes
            sizes[mapping.path] = max(sizes.get(mapping.path, 0), mapping.mapped_bytes)
    touched = sum(min(data[path], sizes[path]) for path in data)
    return private + max(0, libraries) + touched, touched


def tree_of(pid: int) -> list[int]:
    """A process and its descendants, itself first."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [pid, *(child.pid for child in root.children(recursive=True))]
    except psutil.Error:
        return []


def unmapped_shared_bytes(pids: Iterable[int]) -> int:
    """/dev/shm that processes hold open without mapping it: batches that wait in a loader's queue.

    No resident size shows them, and a limit counts them all the same.
    """
    held: dict[tuple[int, int], int] = {}
    mapped: set[int] = set()
    for pid in pids:
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                target = os.readlink(entry.path)  # noqa: PTH115 - thousands of times
                if target.startswith(("/dev/shm/", "/memfd:")):
                    status = os.stat(entry.path)  # noqa: PTH116
                    held[status.st_dev, status.st_ino] = status.st_blocks * 512
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                if "/dev/shm/" in line or "/memfd:" in line:
                    mapped.add(int(line.split(None, 5)[4]))
        except OSError:
            continue
    return sum(size for (_, inode), size in held.items() if inode not in mapped)
