"""Everything that observes the tree while it lives, called when its time has come.

In: the tree and the run's record. Out: vitals, limits that come near and library maps in the run
folder. Promises: a sense that cannot be set up or that fails is said to be missing and left out;
the others, and the command, go on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerail.recorder.filling_memory import FillingMemory
from rerail.recorder.kernel.counters import KernelCounters
from rerail.recorder.run_record import RunRecord
from rerail.recorder.tree.process import Process
from rerail.recorder.tree.processes import Tree
from rerail.recorder.vitals.library_maps import LibraryMaps
from rerail.recorder.vitals.limits import NearLimits

if TYPE_CHECKING:
    from rerail.records import VitalsRow

SAMPLE_SECONDS = 0.1
# Whatever the machine: sampling may use this share of one core, and is done less often past it.
MOST_CPU_SHARE = 0.006


class Sampling:
    def __init__(self, record: RunRecord, tree: Tree, kernel: KernelCounters, cwd: Path) -> None:
        self._record = record
        self._tree = tree
        self._kernel = kernel
        self._cwd = cwd
        self._sampler: Any = None
        self._vitals_log: Any = None
        self._limits = NearLimits()
        self._filling = FillingMemory(record, tree)
        self._row: VitalsRow | None = None
        self._maps = LibraryMaps()
        self._has_begun = False
        self._due = 0.0

    def process_started(self, process: Process) -> None:
        self._maps.note_process(process)

    def tick(self) -> None:
        """Ten times a second. A wake-up costs as much as a small sample: later means at a later
        tick, not between two."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._sample() - SAMPLE_SECONDS / 2

    def _sample(self) -> float:
        """Take one sample; how long to wait until the next."""
        if not self._has_begun:
            self._has_begun = True
            self._record.attempt("vitals", self._begin_vitals)
        writer = self._record.writer
        began = time.thread_time()
        if self._sampler is not None:
            row = self._sampler.sample(round(writer.now(), 3), self._tree.processes)
            if row.process_count:
                self._row = row
                self._vitals_log.add(row)
                self._filling.sampled(row)
                for what, used, limit in self._limits.newly_near(row.machine):
                    writer.event("limit-near", what=what, used=used, limit=limit)
        if self._kernel.watch is not None:
            self._kernel.watch.poll()
        spent = time.thread_time() - began
        living = self._tree.living
        self._record.attempt("library maps", lambda: self._maps.look(living.values(), writer))
        return max(SAMPLE_SECONDS, min(spent / MOST_CPU_SHARE, 2.0))

    def _begin_vitals(self) -> None:
        """At the first sample, not before the start: the command need not wait for our imports."""
        from rerail.recorder.vitals.log import VitalsLog
        from rerail.recorder.vitals.sampler import Sampler

        self._vitals_log = VitalsLog(self._record.writer.vitals)
        self._sampler = Sampler(self._record.writer.path, self._cwd)

    @property
    def latest(self) -> VitalsRow | None:
        return self._row

    @property
    def cpu_seconds(self) -> float:
        return self._row.tree.cpu_seconds if self._row is not None else 0.0

    def close(self) -> None:
        """The root is gone: the last sample before that is the death sample."""
        if self._vitals_log is not None:
            self._record.attempt("vitals", self._vitals_log.close)
        if self._sampler is not None:
            self._record.attempt("vitals", self._sampler.close)
        self._record.attempt("places while memory fills", self._filling.close)
        self._sampler = self._vitals_log = None
        self._has_begun = True
