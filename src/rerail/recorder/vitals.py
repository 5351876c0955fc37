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

from rerail.recorder.machine import MachineReader
from rerail.recorder.procfs import (
    BOTH_PARTS,
    FILES_PART,
    STATUS_PART,
    TICKS_PER_SECOND,
    Detail,
    ProcessGone,
    ProcessReader,
)
from rerail.recorder.vitals_log import VitalsLog
from rerail.records import ProcessVitals, VitalsRow

__all__ = ["Sampler", "VitalsLog"]

TICKS_PER_DETAIL = 10  # one second at 10 Hz
TICKS_PER_MACHINE = 5
TICKS_PER_MEMBERSHIP = 100  # processes other than the first: their cgroup is looked up every 10 s
# With more than 20 processes the turns become longer than a second: 40 have theirs every two.
MOST_DETAIL_READS_PER_CALL = 2
MOST_RESIDENT_READS_PER_CALL = 128
# A process whose memory has stood still for a second is looked at every fourth call, in trees
# where that matters; at its first move it is back at every call.
QUIET_AFTER_CALLS = 10
CALLS_PER_QUIET_READ = 4
VISITS_SKIPPED_WHEN_IDLE = 2  # likewise the rest of a process that has used no CPU
SMALL_TREE = 8


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
        "quiet_calls",
        "reader",
        "shared",
        "slot",
        "visits",
        "visits_to_skip",
    )

    def __init__(self, reader: Reader, start_ticks: int, slot: int) -> None:
        self.reader = reader
        self.key = f"{reader.pid}-{start_ticks}"
        self.slot = slot
        self.quiet_calls = self.visits = self.visits_to_skip = 0
        self.anon = self.shared = 0
        self.read_resident()
        self.detail = reader.read_detail(Detail())

    def read_resident(self) -> bool:
        """True if the memory has changed."""
        resident = self.reader.read_resident()
        if resident is None:
            self.quiet_calls += 1
            return False
        self.quiet_calls = self.visits_to_skip = 0
        self.anon, self.shared = resident
        return True

    def is_visit_due(self, is_small_tree: bool) -> bool:
        if self.visits_to_skip and not is_small_tree:
            self.visits_to_skip -= 1
            return False
        self.visits += 1
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
    from rerail.recorder.psutil_process import PsutilReader

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
        self._tick = -1
        self._slots_given = 0

    def sample(self, t_seconds: float, processes: Sequence[tuple[int, int]]) -> VitalsRow:
        """One row of the processes that are alive."""
        self._tick += 1
        if processes != self._processes_before:
            self._processes_before = list(processes)
            for gone in self._watched.keys() - set(processes):
                self._forget(gone)
        self._read_processes(processes)
        is_small = len(processes) <= SMALL_TREE
        if self._tick % (TICKS_PER_MACHINE if is_small else 2 * TICKS_PER_MACHINE) == 0:
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

    def _read_processes(self, processes: Sequence[tuple[int, int]]) -> None:
        tick = self._tick
        period = max(TICKS_PER_DETAIL, -(-len(processes) // MOST_DETAIL_READS_PER_CALL))
        rounds = -(-len(processes) // MOST_RESIDENT_READS_PER_CALL)
        is_small = len(processes) <= SMALL_TREE
        quiet_rounds = rounds * (1 if is_small else CALLS_PER_QUIET_READ)
        for identity in processes:
            watched = self._watched.get(identity)
            try:
                if watched is None:
                    self._watch(identity)
                    continue
                turn = tick + watched.slot
                if turn % period == 0 and watched.is_visit_due(is_small):
                    # In large trees a visit reads half of it, and the next one the other half.
                    half = STATUS_PART if watched.visits % 2 else FILES_PART
                    if turn % TICKS_PER_MEMBERSHIP == 0:
                        self._machine_reader.note_process(identity[0])
                    if not self._read_detail(watched, BOTH_PARTS if is_small else half):
                        continue
                elif (
                    turn % (rounds if watched.quiet_calls < QUIET_AFTER_CALLS else quiet_rounds)
                    or not watched.read_resident()
                ):
                    continue
                self._refresh(watched)
            except ProcessGone:
                self._forget(identity)
            except (OSError, ValueError, IndexError):
                continue  # unreadable this time: the last values stand

    def _read_detail(self, watched: _Watched, parts: int) -> bool:
        """True if anything has changed."""
        has_moved = watched.read_resident()
        detail = watched.reader.read_detail(watched.detail, parts)
        if detail == watched.detail:
            watched.visits_to_skip = 0 if has_moved else VISITS_SKIPPED_WHEN_IDLE
            return has_moved
        self._sum.change_detail(watched.detail, detail)
        watched.detail = detail
        return True

    def _refresh(self, watched: _Watched) -> None:
        before, after = self._vitals[watched.key], watched.vitals()
        self._sum.change(before, after)
        self._vitals[watched.key] = after

    def _watch(self, identity: tuple[int, int]) -> None:
        reader = _open_reader(*identity)
        try:
            watched = _Watched(reader, identity[1], self._slots_given)
        except BaseException:
            reader.close()
            raise
        self._slots_given += 1
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
