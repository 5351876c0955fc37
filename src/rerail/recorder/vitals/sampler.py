"""The vitals of a tree: at each call one row with every process, their sum and the machine.

In: the time of the run and the (pid, start) pairs alive. Out: a VitalsRow. Meant to be called
ten times a second, with cost spread evenly: resident memory at every call, the rest of each
process about once a second in turn, the machine once or twice a second. Promises: a process may
vanish at any moment; nothing here raises for it. What is read of a process and how it is summed is
declared in vitals_columns.py. A page that several processes of the tree have counts once: which
part of it counts where is for shares.py to say.

Most of the cost is the kernel's: with cold caches 5 µs for a statm, 20 µs for a stat, 30 µs for
a status (benchmarks/vitals_cost.py). Hence the ceilings below.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rerail.platform.bare_platform import is_bare
from rerail.platform.procfs import (
    HALVES,
    NO_DETAIL,
    SOURCES,
    Detail,
    ProcessGone,
    ProcessReader,
)
from rerail.recorder.vitals.log import VitalsLog
from rerail.recorder.vitals.machine import MachineReader
from rerail.recorder.vitals.shares import Resident, Share, Shares
from rerail.recorder.vitals.tree_sum import TreeSum, as_vitals
from rerail.records import ProcessVitals, VitalsRow
from rerail.vitals_columns import PROCESS_NAMES

__all__ = ["Sampler", "VitalsLog"]

# By time and not by calls: the recorder calls less often where a machine is slow.
DETAIL_SECONDS = 1.0
MACHINE_SECONDS = 0.5
MEMBERSHIP_SECONDS = 10.0  # of processes other than the first: which cgroup they stand in
# With more than 20 processes the turns become longer than a second: 40 have theirs every two.
MOST_DETAIL_READS_PER_SECOND = 20
MOST_RESIDENT_READS_PER_SECOND = 1280
# In trees where it matters, a process whose memory has stood still for a second is looked at
# twice a second until its first move, and the rest of one that has used no CPU every third turn.
QUIET_AFTER_LOOKS = 10
QUIET_LOOK_SECONDS = 0.4
IDLE_TURNS = 3
SMALL_TREE = 8
_JITTER_SECONDS = 0.04  # a call that comes this much early is the one that was meant


class Reader(Protocol):
    """What the sampler asks of a process, whatever the system under it."""

    pid: int

    def read_resident(self) -> tuple[int, int] | None: ...

    def read_detail(self, previous: Detail, sources: Sequence[str] = ...) -> Detail: ...

    def close(self) -> None: ...


class _Watched:
    """A process under watch and the last that was read of it."""

    __slots__ = (
        "anon",
        "detail",
        "key",
        "look_t",
        "mapped",
        "membership_t",
        "quiet_looks",
        "reader",
        "share",
        "summed",
        "visit_t",
        "visits",
    )

    def __init__(self, reader: Reader, start_ticks: int) -> None:
        self.reader = reader
        self.share = Share(0, 1.0, 1.0)
        self.key = f"{reader.pid}-{start_ticks}"
        self.look_t = self.visit_t = self.membership_t = 0.0  # when each is due again
        self.quiet_looks = self.visits = 0
        self.anon = self.mapped = 0
        self.read_resident()
        self.detail = reader.read_detail(NO_DETAIL)
        self.summed = self.values()  # what the tree's sum has of it

    def read_resident(self) -> bool:
        """True if the memory has changed."""
        resident = self.reader.read_resident()
        if resident is None:
            self.quiet_looks += 1
            return False
        self.quiet_looks = 0
        self.anon, self.mapped = resident
        return True

    def values(self) -> list[int]:
        """In the order of the columns."""
        found = dict(self.detail)
        # statm has file and shared memory as one number; the split is at most a second old.
        found["rss_shared_bytes"] = shared = min(found["rss_shared_bytes"], self.mapped)
        found["rss_file_bytes"] = self.mapped - shared
        found["rss_anon_bytes"] = self.anon
        share = self.share
        share.anon_elsewhere = min(share.anon_elsewhere, self.anon)  # it cannot come back
        found["anon_elsewhere_bytes"] = share.anon_elsewhere
        found["file_elsewhere_bytes"] = int((self.mapped - shared) * (1.0 - share.file_part))
        found["shared_elsewhere_bytes"] = int(shared * (1.0 - share.shared_part))
        found["proportional"] = int(share.is_proportional)
        return [found[name] for name in PROCESS_NAMES]


def _open_reader(pid: int, start_ticks: int) -> Reader:
    if not is_bare() and os.path.isdir("/proc/self"):  # noqa: PTH112
        return ProcessReader(pid, start_ticks)
    from rerail.platform.psutil_process import PsutilReader

    return PsutilReader(pid)


class Sampler:
    """Takes the vitals of a tree, call after call."""

    def __init__(self, store_dir: Path, cwd: Path) -> None:
        self._machine_reader = MachineReader(store_dir, cwd)
        self._machine: dict[str, float] = {}
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._vitals: dict[str, ProcessVitals] = {}
        self._sum = TreeSum()
        self._shares = Shares()
        self._resident: dict[int, Resident] = {}
        self._processes_before: list[tuple[int, int]] = []
        self._machine_t = float("-inf")
        self._slots_given = 0

    def sample(self, t_seconds: float, processes: Sequence[tuple[int, int]]) -> VitalsRow:
        """One row of the processes that are alive."""
        if processes != self._processes_before:
            self._processes_before = list(processes)
            for gone in self._watched.keys() - set(processes):
                self._forget(t_seconds, gone)
        self._read_processes(t_seconds, processes)
        if self._shares.update(t_seconds, self._resident):
            for watched in self._watched.values():
                self._refresh(watched)
        if t_seconds >= self._machine_t:
            turns = 1 if len(processes) <= SMALL_TREE else 2
            self._machine_t = t_seconds + turns * MACHINE_SECONDS - _JITTER_SECONDS
            if processes:  # the first is the root of the tree, the likeliest to move
                self._machine_reader.note_process(processes[0][0])
            self._machine = self._machine_reader.read()
        return VitalsRow(
            t_seconds=t_seconds,
            span_seconds=0.0,
            tree=self._sum.vitals(),
            process_count=len(self._watched),
            processes=dict(self._vitals),
            machine=self._machine,
        )

    def _read_processes(self, t: float, processes: Sequence[tuple[int, int]]) -> None:
        turn_seconds = max(DETAIL_SECONDS, len(processes) / MOST_DETAIL_READS_PER_SECOND)
        look_seconds = len(processes) / MOST_RESIDENT_READS_PER_SECOND
        is_small = len(processes) <= SMALL_TREE
        for identity in processes:
            watched = self._watched.get(identity)
            try:
                if watched is None:
                    self._watch(t, identity, turn_seconds)
                elif t >= watched.visit_t:
                    self._visit(t, watched, turn_seconds, is_small)
                elif t >= watched.look_t:
                    if watched.read_resident():
                        self._refresh(watched)
                    is_quiet = not is_small and watched.quiet_looks >= QUIET_AFTER_LOOKS
                    pause = max(look_seconds, QUIET_LOOK_SECONDS if is_quiet else 0.0)
                    watched.look_t = t + pause - _JITTER_SECONDS
            except ProcessGone:
                self._forget(t, identity)
            except (OSError, ValueError, IndexError):
                continue  # unreadable this time: the last values stand

    def _visit(self, t: float, watched: _Watched, turn_seconds: float, is_small: bool) -> None:
        """Everything of one process; in large trees half of it, and the next time the rest."""
        watched.visits += 1
        half = HALVES[watched.visits % 2]
        has_changed = self._read_detail(watched, SOURCES if is_small else half)
        if has_changed:
            self._refresh(watched)
        turns = 1 if has_changed or is_small else IDLE_TURNS
        watched.visit_t = t + turns * turn_seconds - _JITTER_SECONDS
        if t >= watched.membership_t:
            watched.membership_t = t + MEMBERSHIP_SECONDS
            self._machine_reader.note_process(watched.reader.pid)

    def _read_detail(self, watched: _Watched, sources: Sequence[str]) -> bool:
        """True if anything has changed."""
        has_moved = watched.read_resident()
        detail = watched.reader.read_detail(watched.detail, sources)
        if detail == watched.detail:
            return has_moved
        watched.detail = detail
        return True

    def _refresh(self, watched: _Watched) -> None:
        self._resident[watched.reader.pid] = Resident(watched.anon, watched.mapped)
        values = watched.values()
        self._sum.change(watched.summed, values)
        watched.summed = values
        self._vitals[watched.key] = as_vitals(values)

    def _watch(self, t: float, identity: tuple[int, int], turn_seconds: float) -> None:
        reader = _open_reader(*identity)
        try:
            watched = _Watched(reader, identity[1])
        except BaseException:
            reader.close()
            raise
        # Spread over the turn, so that forty that start together are not due together.
        self._slots_given += 1
        watched.visit_t = t + turn_seconds * (1 + self._slots_given % 10) / 10 - _JITTER_SECONDS
        watched.membership_t = t + MEMBERSHIP_SECONDS
        self._watched[identity] = watched
        pid = reader.pid
        self._resident[pid] = Resident(watched.anon, watched.mapped)
        watched.share = self._shares.begin(t, pid, self._resident)
        watched.summed = watched.values()
        self._vitals[watched.key] = as_vitals(watched.summed)
        self._sum.add(watched.summed)
        self._machine_reader.note_process(identity[0])

    def _forget(self, t: float, identity: tuple[int, int]) -> None:
        watched = self._watched.pop(identity, None)
        if watched is not None:
            watched.reader.close()
            self._shares.end(t, identity[0])
            self._resident.pop(identity[0], None)
            self._sum.remove(watched.summed)
            del self._vitals[watched.key]

    def close(self) -> None:
        """Let go of every descriptor and thread."""
        for identity in list(self._watched):
            self._forget(0.0, identity)
        self._machine_reader.close()
