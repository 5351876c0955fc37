"""Copies of the black boxes on the disk, while the processes keep theirs in memory.

In: the run's record. Out: every few seconds, up-to-date copies in the run folder, so that a power
cut costs seconds; and once, what dead recorders left in memory goes into their run folders.
Promises: it is done in a child with a deadline, which nobody waits for: a disk that does not answer
delays the copies and nothing else. There is one child at a time, also while it cannot be ended.
"""

from __future__ import annotations

import os
from contextlib import suppress

from rerail.platform.descriptors import close_all_but
from rerail.platform.forked_task import ForkedTask
from rerail.recorder.run_record import RunRecord

LOOK_SECONDS = 1.0
COPY_SECONDS = 5.0  # as often as ext4 commits its journal; what a power cut may cost
MOST_SECONDS = 60.0
LAST_SECONDS = 2.0  # more is not waited for once the command has ended
_HAS_OTHERS = b"o"


class BoxCopies:
    def __init__(self, record: RunRecord, own_helpers: set[int]) -> None:
        self._record = record
        self._own_helpers = own_helpers  # pids that are not processes of the run
        self._task: ForkedTask | None = None
        self._answer = -1
        self._due_t = 0.0
        self._sweeping: ForkedTask | None = None
        self._is_over = False

    def look(self) -> None:
        """Once a second: begin when it is time, and take note of the end."""
        if self._task is not None and self._task.is_over():
            self._end()
        if self._sweeping is not None:
            self._sweeping.is_over()  # reaped
        now = self._record.writer.now()
        is_due = not self._is_over and self._task is None and now >= self._due_t
        if is_due and self._record.writer.agent_dir.memory is not None:
            self._due_t = now + COPY_SECONDS
            self._begin()

    def finish(self) -> None:
        """From now on nobody but us writes the copies."""
        self._is_over = True
        if self._task is not None:
            self._task.wait(LAST_SECONDS)
            self._task.cancel()
            self._end()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._own_helpers.discard(self._sweeping.pid)

    def _begin(self) -> None:
        started = self._record.attempt(
            "copies of black boxes",
            lambda: ForkedTask.start_with_answer("box copies", self._copy, MOST_SECONDS),
        )
        if started is not None:
            self._task, self._answer = started
            self._own_helpers.add(self._task.pid)
        if self._sweeping is None:
            self._sweeping = self._record.attempt(
                "copies of black boxes",
                lambda: ForkedTask.start("box sweep", self._sweep, MOST_SECONDS),
            )
            if self._sweeping is not None:
                self._own_helpers.add(self._sweeping.pid)

    def _copy(self, answer: int) -> None:
        # On a disk that hangs it may outlive the run: nobody is to wait for its pipes.
        close_all_but([0, 1, 2, answer])
        if self._record.writer.copy_agent_files():
            os.write(answer, _HAS_OTHERS)

    def _sweep(self) -> None:
        """What dead recorders left may belong to another disk, which may hang."""
        from rerail.store import bring_left_behind_home

        close_all_but([0, 1, 2])
        bring_left_behind_home()

    def _end(self) -> None:
        with suppress(OSError):
            if os.read(self._answer, 1) == _HAS_OTHERS:
                self._record.writer.agent_dir.is_in_memory_alone = False
        os.close(self._answer)
        if self._task is not None:
            self._own_helpers.discard(self._task.pid)
        self._task, self._answer = None, -1
