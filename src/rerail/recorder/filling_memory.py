"""Where the largest process is while memory fills up: who is killed for memory cannot say.

In: every sample of the vitals. Out: `memory-place` events with the process, its innermost line of
the user's own code, and how full memory was. From half of the limit on a look is taken each time
that memory has grown by a few hundredths of it, never twice in LEAST_SECONDS and MOST_LOOKS times
in a run: one whose memory stands still is looked at once. Promises: py-spy reads the memory of a
process that goes on, which is neither stopped nor signalled. A look takes some 15 MB, so none is
taken where less than ROOM_BYTES is left: rerail must not be what fills it.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from rerail.platform.forked_task import ForkedTask

if TYPE_CHECKING:
    from rerail.recorder.run_record import RunRecord
    from rerail.recorder.tree.processes import Tree
    from rerail.records import VitalsRow

FULL_FROM = 0.5
GROWN_BY = 0.03  # of the limit, since the last look
ROOM_BYTES = 64 << 20
LEAST_SECONDS = 0.25
MOST_LOOKS = 60
LOOK_SECONDS = 2.0
_MOST_ANSWER_BYTES = 4000  # a pipe takes that much at once


class FillingMemory:
    def __init__(self, record: RunRecord, tree: Tree) -> None:
        self._record = record
        self._tree = tree
        self._look: tuple[ForkedTask, int, dict[str, Any]] | None = None
        self._looked_at_bytes = 0.0
        self._due = 0.0
        self._looks = 0

    def sampled(self, row: VitalsRow) -> None:
        """After every sample."""
        if self._look is not None and self._look[0].is_over():
            self._end_look()
        if self._look is not None or self._looks >= MOST_LOOKS:
            return
        used, limit = row.tree.rss_bytes, limit_of(row.machine)
        is_filling = limit > 0 and FULL_FROM * limit <= used < limit - ROOM_BYTES
        if not is_filling or used < self._looked_at_bytes + GROWN_BY * limit:
            return
        if time.monotonic() >= self._due:
            self._record.attempt("places while memory fills", lambda: self._begin(row, limit))

    def _begin(self, row: VitalsRow, limit: float) -> None:
        self._looked_at_bytes = row.tree.rss_bytes
        self._due = time.monotonic() + LEAST_SECONDS
        self._looks += 1
        key = max(row.processes, key=lambda key: row.processes[key].rss_bytes)
        pid = int(key.partition("-")[0])
        known = {"pid": pid, "used": int(row.tree.rss_bytes), "limit": int(limit)}

        def take(write_end: int) -> None:
            from rerail.platform.own_code import innermost_own
            from rerail.recorder.stalls.places import own_part, telling_thread
            from rerail.recorder.stalls.stacks_by_debugger import take_gently

            threads = take_gently(pid, LOOK_SECONDS)
            own = innermost_own(own_part(telling_thread(pid, threads).python)) if threads else None
            if own is not None:
                place = {"file": own.file, "line": own.line, "function": own.function}
                data = json.dumps(place).encode()
                if len(data) <= _MOST_ANSWER_BYTES:
                    os.write(write_end, data)

        task, read_end = ForkedTask.start_with_answer("place", take, LOOK_SECONDS)
        self._look = (task, read_end, {**known, "taken_t": round(self._record.writer.now(), 3)})
        self._tree.own_helpers.add(task.pid)

    def _end_look(self) -> None:
        """Whoever has no py-spy, or a process that is gone, has no answer: that is no trouble."""
        assert self._look is not None
        _, read_end, known = self._look
        self._look = None
        try:
            data = os.read(read_end, _MOST_ANSWER_BYTES)
            if data:
                self._record.writer.event("memory-place", **known, **json.loads(data))
        except (OSError, ValueError):
            pass
        finally:
            os.close(read_end)

    def close(self) -> None:
        """The command has ended: a look that is done still counts, one under way has nobody."""
        if self._look is not None:
            task = self._look[0]
            if not task.wait(0.1):
                task.cancel()
            self._end_look()


def limit_of(machine: dict[str, float]) -> float:
    """What memory ends at: the group's limit, else the machine's own memory."""
    return min(
        (limit for name in ("cgroup_limit_bytes", "total_bytes") if (limit := machine.get(name))),
        default=0.0,
    )
