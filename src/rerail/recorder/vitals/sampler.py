"""The vitals of a tree: at each call one row with every process, their sum and the machine.

In: the time of the run and the (pid, start) pairs alive. Out: a VitalsRow. Meant to be called
ten times a second, with cost spread evenly: resident memory at every call, the rest of each
process about once a second in turn, the machine once or twice a second. Promises: a process may
vanish at any moment; nothing here raises for it. Memory is a gauge and sums over the living; CPU,
faults, I/O and switches are totals and keep what ended processes had, so that they never fall.
Shared pages count once per process that maps them: the tree's sum is an upper bound.

Most of the cost is the kernel's: with cold caches 5 µs for a statm, 20 µs for a stat, 30 µs for
a status (benchmarks/vitals_cost.py). Hence the ceilings below.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Protocol

from rerail.platform.procfs import (
    BOTH_PARTS,
    FILES_PART,
    STATUS_PART,
    TICKS_PER_SECOND,
    Detail,
    ProcessGone,
    ProcessReader,
)
from rerail.recorder.vitals.log import VitalsLog
from rerail.recorder.vitals.machine import MachineReader
from rerail.records import ProcessVitals, VitalsRow

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

    def read_detail(self, previous: Detail, parts: int = ...) -> Detail: ...

    def close(self) -> None: ...


class _Watched:
    """A process under watch and the last that was read of it."""

    __slots__ = (
        "anon",
        "detail",
        "key",
        "look_t",
        "membership_t",
        "quiet_looks",
        "reader",
        "shared",
        "visit_t",
        "visits",
    )

    def __init__(self, reader: Reader, start_ticks: int) -> None:
        self.reader = reader
        self.key = f"{reader.pid}-{start_ticks}"
        self.look_t = self.visit_t = self.membership_t = 0.0  # when each is due again
        self.quiet_looks = self.visits = 0
        self.anon = self.shared = 0
        self.read_resident()
        self.detail = reader.read_detail(Detail())

    def read_resident(self) -> bool:
        """True if the memory has changed."""
        resident = self.reader.read_resident()
        if resident is None:
            self.quiet_looks += 1
            return False
        self.quiet_looks = 0
        self.anon, self.shared = resident
        return True

    def vitals(self) -> ProcessVitals:
        # statm has file and shared memory as one number; the split is at most a second old.
        shared_memory = min(self.detail.shared_memory_bytes, self.shared)
        return _vitals(self.anon, self.shared - shared_memory, shared_memory, self.detail)


_NAMES = tuple(field.name for field in fields(ProcessVitals))


def _vitals(anon: int, file: int, shared: int, detail: Detail) -> ProcessVitals:
    """A ProcessVitals, without the setter that a frozen dataclass calls for each field.

    Made twenty times a call, and that setter is most of what one costs.
    """
    _, swap, threads, fds, cpu_ticks, *rest = detail
    vitals = ProcessVitals.__new__(ProcessVitals)
    vitals.__dict__.update(
        zip(
            _NAMES,
            (anon, file, shared, swap, threads, fds, cpu_ticks / TICKS_PER_SECOND, *rest),
            strict=True,
        )
    )
    return vitals


def _open_reader(pid: int, start_ticks: int) -> Reader:
    if os.path.isdir("/proc/self"):  # noqa: PTH112
        return ProcessReader(pid, start_ticks)
    from rerail.platform.psutil_process import PsutilReader

    return PsutilReader(pid)


class _TreeSum:
    """The sum over the tree, kept up to date by differences instead of added up at each call."""

    def __init__(self) -> None:
        self._anon = self._file = self._shared = 0
        self._detail = [0] * len(Detail._fields)

    def change(self, before: ProcessVitals, after: ProcessVitals) -> None:
        self._anon += after.rss_anon_bytes - before.rss_anon_bytes
        self._file += after.rss_file_bytes - before.rss_file_bytes
        self._shared += after.rss_shared_bytes - before.rss_shared_bytes

    def change_detail(self, before: Detail, after: Detail) -> None:
        self._detail = [
            total + new - old for total, old, new in zip(self._detail, before, after, strict=True)
        ]

    def remove(self, vitals: ProcessVitals, detail: Detail) -> None:
        """A process has ended: its memory, threads and descriptors go, its totals stay."""
        self.change(vitals, ProcessVitals())
        self.change_detail(detail, detail._replace(swap_bytes=0, threads=0, fds=0))

    def vitals(self) -> ProcessVitals:
        return _vitals(self._anon, self._file, self._shared, Detail(*self._detail))


class Sampler:
    """Takes the vitals of a tree, call after call."""

    def __init__(self, store_dir: Path, cwd: Path) -> None:
        self._machine_reader = MachineReader(store_dir, cwd)
        self._machine: dict[str, float] = {}
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._vitals: dict[str, ProcessVitals] = {}
        self._sum = _TreeSum()
        self._processes_before: list[tuple[int, int]] = []
        self._machine_t = float("-inf")
        self._slots_given = 0

    def sample(self, t_seconds: float, processes: Sequence[tuple[int, int]]) -> VitalsRow:
        """One row of the processes that are alive."""
        if processes != self._processes_before:
            self._processes_before = list(processes)
            for gone in self._watched.keys() - set(processes):
                self._forget(gone)
        self._read_processes(t_seconds, processes)
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
                self._forget(identity)
            except (OSError, ValueError, IndexError):
                continue  # unreadable this time: the last values stand

    def _visit(self, t: float, watched: _Watched, turn_seconds: float, is_small: bool) -> None:
        """Everything of one process; in large trees half of it, and the next time the rest."""
        watched.visits += 1
        half = STATUS_PART if watched.visits % 2 else FILES_PART
        has_changed = self._read_detail(watched, BOTH_PARTS if is_small else half)
        if has_changed:
            self._refresh(watched)
        turns = 1 if has_changed or is_small else IDLE_TURNS
        watched.visit_t = t + turns * turn_seconds - _JITTER_SECONDS
        if t >= watched.membership_t:
            watched.membership_t = t + MEMBERSHIP_SECONDS
            self._machine_reader.note_process(watched.reader.pid)

    def _read_detail(self, watched: _Watched, parts: int) -> bool:
        """True if anything has changed."""
        has_moved = watched.read_resident()
        detail = watched.reader.read_detail(watched.detail, parts)
        if detail == watched.detail:
            return has_moved
        self._sum.change_detail(watched.detail, detail)
        watched.detail = detail
        return True

    def _refresh(self, watched: _Watched) -> None:
        before, after = self._vitals[watched.key], watched.vitals()
        self._sum.change(before, after)
        self._vitals[watched.key] = after

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
        self._vitals[watched.key] = vitals = watched.vitals()
        self._sum.change(ProcessVitals(), vitals)
        self._sum.change_detail(Detail(), watched.detail)
        self._machine_reader.note_process(identity[0])

    def _forget(self, identity: tuple[int, int]) -> None:
        watched = self._watched.pop(identity, None)
        if watched is not None:
            watched.reader.close()
            self._sum.remove(self._vitals.pop(watched.key), watched.detail)

    def close(self) -> None:
        """Let go of every descriptor and thread."""
        for identity in list(self._watched):
            self._forget(identity)
        self._machine_reader.close()
