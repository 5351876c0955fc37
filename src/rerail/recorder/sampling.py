"""Everything that observes the tree while it lives, called when its time has come.

In: the tree and the run's writer. Out: vitals, library maps, kernel counters and surroundings in
the run folder; stalls to whoever asked. Promises: a sense that cannot be set up or that fails is
said to be missing and left out; the others, and the command, go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rerail.platform.forked_task import ForkedTask
from rerail.recorder.tree.process import Process
from rerail.recorder.tree.processes import Tree
from rerail.recorder.vitals.library_maps import LibraryMaps
from rerail.recorder.vitals.limits import NearLimits
from rerail.store import RunWriter

if TYPE_CHECKING:
    from rerail.recorder.kernel.account import KernelWatch
    from rerail.records import AfterDeath, ProcessRecord, VitalsRow

T = TypeVar("T")

SAMPLE_SECONDS = 0.1
# Whatever the machine: sampling may use this share of one core, and is done less often past it.
MOST_CPU_SHARE = 0.006
SURROUNDINGS_SECONDS = 60.0
# Looked at this long after the start, or at the end of a command that died before: it takes more
# CPU time than all else that a short run costs, and of one that ended well nobody asks for it.
SURROUNDINGS_AFTER_SECONDS = 2.0
LAST_SURROUNDINGS_SECONDS = 1.0  # more is not waited for once the command has ended
# Between two looks at the kernel's counters because a process ended well: a script that starts
# hundreds a second is not to pay for a look at each.
COUNTERS_SECONDS = 0.1


class Sampling:
    def __init__(self, writer: RunWriter, tree: Tree, cwd: Path) -> None:
        self._writer = writer
        self._tree = tree
        self._missing: set[str] = set()
        self._sampler: Any = None
        self._vitals_log: Any = None
        self._kernel: KernelWatch | None = None
        self._limits = NearLimits()
        self._row: VitalsRow | None = None
        self._maps = LibraryMaps()
        self._look_around: Callable[[], None] | None = None  # planned and not begun yet
        self._surroundings: ForkedTask | None = None
        self._cwd = cwd
        self._has_begun = False
        self._counters_due = 0.0
        self._has_unread_end = False
        self._try("kernel counters", self._begin_kernel)

    def use(self, writer: RunWriter) -> None:
        """In the guardian: the run has another writer now."""
        self._writer = writer
        if (writer.path / "surroundings.json").exists():
            self._look_around = None

    def _begin_kernel(self) -> None:
        from rerail.recorder.kernel import account as kernel

        self._kernel = kernel.begin()

    def _begin_vitals(self) -> None:
        """At the first sample, not before the start: the command need not wait for our imports."""
        from rerail.recorder.vitals.log import VitalsLog
        from rerail.recorder.vitals.sampler import Sampler

        self._vitals_log = VitalsLog(self._writer.path, self.miss)
        self._sampler = Sampler(self._writer.path, self._cwd)

    def plan_surroundings(
        self, command: Sequence[str], environ: Mapping[str, str], added: Mapping[str, str]
    ) -> None:
        def look_around() -> None:
            from rerail.recorder import surroundings

            found = surroundings.collect(
                list(command), self._cwd, dict(environ), dict(added), self._writer.masker
            )
            self._writer.write_json("surroundings.json", found)

        self._look_around = look_around

    def _begin_surroundings(self) -> None:
        """In a child: it asks git and the target's interpreter, which takes its time."""
        work, self._look_around = self._look_around, None
        if work is None:
            return
        task = self._try(
            "surroundings",
            lambda: ForkedTask.start("surroundings", work, SURROUNDINGS_SECONDS, niceness=10),
        )
        if task is not None:
            self._surroundings = task
            self._tree.own_helpers.add(task.pid)

    def note_process(self, process: Process) -> None:
        """A newcomer in the tree."""
        if self._kernel is not None:
            self._try("kernel counters", lambda: self._kernel_note(process.pid))
        self._maps.note_process(process)

    def _kernel_note(self, pid: int) -> None:
        assert self._kernel is not None
        self._kernel.note_process(pid)

    def tick(self) -> float:
        """Take one sample; how long to wait until the next."""
        if not self._has_begun:
            self._has_begun = True
            self._try("vitals", self._begin_vitals)
        began = time.thread_time()
        if self._sampler is not None:
            row = self._sampler.sample(round(self._writer.now(), 3), self._tree.processes)
            if row.process_count:
                self._row = row
                self._vitals_log.add(row)
                for what, used, limit in self._limits.newly_near(row.machine):
                    self._writer.event("limit-near", what=what, used=used, limit=limit)
        if self._kernel is not None:
            self._kernel.poll()
        spent = time.thread_time() - began
        self._try("library maps", lambda: self._maps.look(self._tree.living.values(), self._writer))
        if self._surroundings is not None and self._surroundings.is_over():
            self._end_surroundings()
        return max(SAMPLE_SECONDS, min(spent / MOST_CPU_SHARE, 2.0))

    def process_ended(self, process: Process) -> None:
        """Counters of a cgroup may vanish with its last process: read them now."""
        was_clean = process.ending is not None and process.ending.is_clean
        if was_clean and time.monotonic() < self._counters_due:
            self._has_unread_end = True
        else:
            self._read_counters()

    def catch_up(self) -> None:
        """Ten times a second: what was put off until now."""
        if self._has_unread_end:
            self._read_counters()
        if self._look_around is not None and self._writer.now() >= SURROUNDINGS_AFTER_SECONDS:
            self._begin_surroundings()

    def _read_counters(self) -> None:
        self._has_unread_end = False
        self._counters_due = time.monotonic() + COUNTERS_SECONDS
        if self._kernel is not None:
            self._try("kernel counters", self._kernel.poll)

    @property
    def cpu_seconds(self) -> float:
        return self._row.tree.cpu_seconds if self._row is not None else 0.0

    def close(self) -> None:
        """The root is gone: the last sample before that is the death sample."""
        if self._vitals_log is not None:
            self._try("vitals", self._vitals_log.close)
        if self._sampler is not None:
            self._try("vitals", self._sampler.close)
        self._sampler = self._vitals_log = None
        self._has_begun = True

    def finish_kernel(self, processes: Sequence[ProcessRecord]) -> AfterDeath | None:
        if self._kernel is None:
            return None
        watch = self._kernel
        return self._try("kernel counters", lambda: watch.finish(processes))

    def finish_surroundings(self, *, is_wanted: bool) -> None:
        """A short run is over before its surroundings are known: if they are wanted, wait."""
        if is_wanted:
            self._begin_surroundings()
        elif self._look_around is not None:
            self._look_around = None
            self.miss("surroundings", "the run was over first")
        if self._surroundings is not None:
            self._surroundings.wait(LAST_SURROUNDINGS_SECONDS if is_wanted else 0.0)
            self._surroundings.cancel()
            self._end_surroundings()

    def _end_surroundings(self) -> None:
        assert self._surroundings is not None
        if self._surroundings.problem:
            self.miss("surroundings", self._surroundings.problem)
        self._surroundings = None

    def miss(self, what: str, why: str) -> None:
        """Say once what the record lacks."""
        if what not in self._missing:
            self._missing.add(what)
            self._writer.event("missing", what=what, why=why)

    def _try(self, what: str, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except Exception as error:
            self.miss(what, f"{type(error).__name__}: {error}")
            return None
