"""The memory of the processes of a tree, each page counted once.

In: pids. Out: a `ProcessMemory` each. Resident size counts a page that two processes share twice:
a forked worker seems to hold all that its parent holds. The proportional size (PSS) shares it out,
so that the sum over a tree is what the tree really takes. Where the kernel does not tell it (macOS)
the memory that is a process's own stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ROLLUP = re.compile(r"^(Rss|Pss|Pss_Anon|Pss_File|Pss_Shmem):\s+(\d+) kB$", re.MULTILINE)
_HEAD = re.compile(r"^[0-9a-f]+-([0-9a-f]+) (....) \S+ \S+ \d+\s*(.*)$")
_LIBRARY = re.compile(r"\.so(\.[\w.]+)?$|/(lib)?python[\d.]*$|\.pyc$|/locale-archive$|/gconv")


@dataclass(frozen=True)
class ProcessMemory:
    pid: int
    rss_bytes: int = 0
    pss_bytes: int = 0
    anon_bytes: int = 0  # the parts of pss_bytes
    file_bytes: int = 0
    shared_bytes: int = 0


@dataclass(frozen=True)
class DataMapping:
    """A data file that is mapped into a process, and how much of it has been touched there."""

    path: str
    mapped_bytes: int
    rss_bytes: int
    pss_bytes: int


def read_memory(pid: int) -> ProcessMemory | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except FileNotFoundError:
        return _by_psutil(pid)
    except OSError:  # gone, or another user's
        return None
    found = {name: int(value) * 1024 for name, value in _ROLLUP.findall(text)}
    return ProcessMemory(
        pid,
        found.get("Rss", 0),
        found.get("Pss", 0),
        found.get("Pss_Anon", 0),
        found.get("Pss_File", 0),
        found.get("Pss_Shmem", 0),
    )


def _by_psutil(pid: int) -> ProcessMemory | None:
    import psutil

    try:
        process = psutil.Process(pid)
        rss = int(process.memory_info().rss)
        own = int(getattr(process.memory_full_info(), "uss", rss))
    except psutil.Error:
        return None
    return ProcessMemory(pid, rss, own, own)


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


def tree_of(pid: int) -> list[int]:
    """A process and its descendants, itself first."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [pid, *(child.pid for child in root.children(recursive=True))]
    except psutil.Error:
        return []
