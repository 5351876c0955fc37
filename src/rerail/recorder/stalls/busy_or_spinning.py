"""Does a tree that uses the CPU work, or does it spin while it waits?

In: the processes, and several looks at their stacks. Out: `True` only if every thread that used the
CPU was in a function that waits by spinning, in every look. Promises: a thread whose stack cannot
be read counts as one that works.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from rerail.platform.patterns import linear
from rerail.platform.proc_files import read_stat
from rerail.recorder.stalls.wait_kinds import is_in_openmp
from rerail.records import ThreadStack

LOOKS = 3
BETWEEN_LOOKS_SECONDS = 0.4
_LEAST_SHARE = 0.1  # of a core: a thread that uses less neither works nor spins
_SPINS = linear(
    r"^(gomp_(team_)?barrier_wait|gomp_\w*wait|do_spin|do_wait|__kmp\w*(wait|barrier|release|yield)"
    r"|_*sched_yield|pthread_spin_lock|cpu_relax|ncclProxy|blas_thread_server)"
)

Ticks = Mapping[tuple[str, int], int]


def cpu_ticks(keys: Iterable[str]) -> dict[tuple[str, int], int]:
    """CPU time of every thread so far, by process and thread."""
    found = {}
    for key in keys:
        pid = int(key.partition("-")[0])
        try:
            threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
        except OSError:
            continue
        for thread in threads:
            stat = read_stat(pid, thread)
            if stat is not None:
                found[key, thread] = stat.cpu_ticks
    return found


def only_spins(
    before: Ticks,
    after: Ticks,
    seconds: float,
    looks: Sequence[Mapping[str, Sequence[ThreadStack]]],
) -> bool:
    """Is everything that the tree did between the two counts a wait?"""
    least = _LEAST_SHARE * seconds * os.sysconf("SC_CLK_TCK")
    active = [each for each, ticks in after.items() if ticks - before.get(each, 0) >= least]
    return bool(active) and all(
        any(thread.thread_id == tid and _spins(thread) for thread in look.get(key, ()))
        for key, tid in active
        for look in looks
    )


def _spins(thread: ThreadStack) -> bool:
    inner = [frame.function for frame in thread.native[:3] if frame.function]
    return is_in_openmp(thread) or any(_SPINS.match(name) for name in inner)
