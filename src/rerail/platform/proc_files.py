"""One look at a process in /proc: who it is and how it stands.

In: a pid. Out: what its files say now, or None: it may be gone at any moment, which is no error.
Raw descriptors rather than file objects: a fork is looked at within microseconds, and often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container
from pathlib import Path

from rerail.platform.bare_platform import is_bare
from rerail.platform.procfs import TICKS_PER_SECOND, StatFields, parse_stat

LONGEST_COMMAND = 64 * 1024
LONGEST_ENVIRONMENT = 1 << 20


def read(pid: int, name: str, most_bytes: int = 4096) -> bytes | None:
    """A file of /proc/PID, as far as one read gives it."""
    return _read(f"/proc/{pid}/{name}", most_bytes)


def has_proc() -> bool:
    return read_machine("self/stat") is not None


def read_machine(name: str) -> bytes | None:
    """A small file of /proc itself."""
    return _read(f"/proc/{name}", 4096)


def _read(path: str, most_bytes: int) -> bytes | None:
    if is_bare():
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_stat(pid: int, thread: int | None = None) -> StatFields | None:
    """Of a process, or of one of its threads."""
    text = read(pid, "stat" if thread is None else f"task/{thread}/stat")
    try:
        return parse_stat(text) if text else None
    except (ValueError, IndexError):
        return None


def read_start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, or None if there is no such process."""
    stat = read_stat(pid)
    return stat.start_ticks if stat else None


def start_ticks_at(monotonic_ns: int) -> int:
    """The start time of a process that was gone before it could be looked at."""
    if not monotonic_ns or not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return (monotonic_ns + asleep_ns) * TICKS_PER_SECOND // 1_000_000_000


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether this very process is there and is no zombie."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and not stat.is_over


def others_in_session(leader: int) -> list[int]:
    """Return the processes of a session without its leader; empty where there is no /proc."""
    found = []
    try:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        try:
            if pid != leader and os.getsid(pid) == leader:
                found.append(pid)
        except OSError:
            continue  # it has ended since
    return found


def read_command(pid: int) -> list[str]:
    data = read(pid, "cmdline", LONGEST_COMMAND)
    if not data:
        return []
    return [part.decode(errors="replace") for part in data.rstrip(b"\0").split(b"\0")]


def read_variables(pid: int, wanted: Container[str]) -> dict[str, str]:
    """Of its environment only these: the rest is nobody's business here."""
    found = {}
    for entry in (read(pid, "environ", LONGEST_ENVIRONMENT) or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if (decoded := name.decode(errors="replace")) in wanted:
            found[decoded] = value.decode(errors="replace")
    return found
