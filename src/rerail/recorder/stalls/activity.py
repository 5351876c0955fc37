"""How much a tree works: CPU time, time in line for a core, bytes read and written.

In: pids. Out: totals so far, read from /proc. On a machine with more work than cores a thread may
compute without pause and get a twentieth of a core: the time that it stood in line tells that it
did not wait for anything else. Promises: a bounded number of small files; what cannot be read
counts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from rerail.platform.proc_files import read, read_stat
from rerail.platform.procfs import TICKS_PER_SECOND

MOST_PROCESSES = 64
MOST_THREADS = 512  # of all processes together


class Work(NamedTuple):
    cpu_seconds: float = 0.0
    queued_seconds: float = 0.0
    moved_bytes: int = 0

    def plus(self, before: tuple[Work, float], now: tuple[Work, float]) -> Work:
        """With what was done between two counts of the living and of the whole tree's CPU time.

        Of processes that have ended meanwhile only the tree's total knows, a little later.
        """
        (living_before, tree_before), (living, tree) = before, now
        cpu = max(0.0, living.cpu_seconds - living_before.cpu_seconds)
        queued = max(0.0, living.queued_seconds - living_before.queued_seconds)
        queued += max(0.0, tree - tree_before - cpu)
        moved = max(0, living.moved_bytes - living_before.moved_bytes)
        return Work(self.cpu_seconds + cpu, self.queued_seconds + queued, self.moved_bytes + moved)


def count_work(pids: Iterable[int]) -> Work:
    cpu = queued = 0.0
    moved, threads_left = 0, MOST_THREADS
    for pid in list(pids)[:MOST_PROCESSES]:
        moved += _moved_bytes(pid)
        try:
            threads = os.listdir(f"/proc/{pid}/task")[:threads_left]  # noqa: PTH208
        except OSError:
            continue
        threads_left -= len(threads)
        for thread in threads:
            ran, waited = _schedule(pid, int(thread))
            cpu += ran
            queued += waited
    return Work(cpu, queued, moved)


def _schedule(pid: int, thread: int) -> tuple[float, float]:
    """Seconds on a core, and in line for one."""
    fields = (read(pid, f"task/{thread}/schedstat") or b"").split()
    if len(fields) >= 2:
        return int(fields[0]) / 1e9, int(fields[1]) / 1e9
    stat = read_stat(pid, thread)  # a kernel without these statistics
    return (stat.cpu_ticks / TICKS_PER_SECOND if stat else 0.0), 0.0


def _moved_bytes(pid: int) -> int:
    """Through files, pipes and devices; what a socket receives is not in there."""
    fields = dict(line.split(b": ", 1) for line in (read(pid, "io") or b"").splitlines())
    return int(fields.get(b"rchar", 0)) + int(fields.get(b"wchar", 0))
