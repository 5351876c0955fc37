"""The kernel's counters of a run: when they are read, and what became of them in the end.

In: processes as they come and go. Out: the account for after.json. Promises: a counter that cannot
be read is said to be missing; a command that starts hundreds of processes a second does not pay for
a look at each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rerail.recorder.run_record import RunRecord
from rerail.recorder.tree.process import Process

if TYPE_CHECKING:
    from rerail.recorder.kernel.account import KernelWatch
    from rerail.records import AfterDeath, ProcessRecord

WHAT = "kernel counters"
PAUSE_SECONDS = 0.1  # between two looks because a process ended well


class KernelCounters:
    def __init__(self, record: RunRecord, watch: KernelWatch | None) -> None:
        self.watch = watch
        self._record = record
        self._due = 0.0
        self._has_unread_end = False

    @classmethod
    def begin(cls, record: RunRecord) -> KernelCounters:
        return cls(record, record.attempt(WHAT, _begin))

    def process_started(self, process: Process) -> None:
        watch = self.watch
        if watch is not None:
            self._record.attempt(WHAT, lambda: watch.note_process(process.pid))

    def root_is_over(self, root: Process) -> None:
        """Before it is reaped."""
        watch = self.watch
        if watch is not None:
            self._record.attempt(WHAT, lambda: watch.note_last_limits(root.pid))

    def process_ended(self, process: Process) -> None:
        """Counters of a cgroup may vanish with its last process: read them now."""
        was_clean = process.ending is not None and process.ending.is_clean
        if was_clean and time.monotonic() < self._due:
            self._has_unread_end = True
        else:
            self._read()

    def catch_up(self) -> None:
        """Ten times a second: the look that was put off until now."""
        if self._has_unread_end:
            self._read()

    def _read(self) -> None:
        self._has_unread_end = False
        self._due = time.monotonic() + PAUSE_SECONDS
        if self.watch is not None:
            self._record.attempt(WHAT, self.watch.poll)

    def finish(self, processes: Sequence[ProcessRecord]) -> AfterDeath | None:
        watch = self.watch
        if watch is None:
            return None
        return self._record.attempt(WHAT, lambda: watch.finish(processes))


def _begin() -> KernelWatch:
    from rerail.recorder.kernel import account

    return account.begin()
