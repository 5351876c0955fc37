"""Which libraries each process of the tree has loaded, looked at again while it goes on loading.

In: the processes of the tree. Out: `maps/KEY.json` in the run folder, written anew when another
library has come. A look at a torch process takes a millisecond, so looks have a share of one core
of their own: with forty processes they come later rather than cost more. The first look of a
process comes before a second look at any other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rerail.recorder.tree.process import Process
from rerail.store import RunWriter

FIRST_LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
MOST_PROCESSES = 256
MOST_CPU_SHARE = 0.001


@dataclass
class _Looks:
    due: float
    pause_seconds: float = FIRST_LOOK_SECONDS
    written: int = 0  # a hash of the libraries written last
    count: int = 0


class LibraryMaps:
    def __init__(self) -> None:
        self._looks: dict[str, _Looks] = {}
        self._rest_until = 0.0

    def note_process(self, process: Process) -> None:
        if len(self._looks) < MOST_PROCESSES:
            self._looks[process.key] = _Looks(time.monotonic() + FIRST_LOOK_SECONDS)

    def look(self, living: Iterable[Process], writer: RunWriter) -> None:
        """At one process, if one is due and the last look is paid for."""
        now = time.monotonic()
        if now < self._rest_until:
            return
        due = [p for p in living if p.key in self._looks and self._looks[p.key].due <= now]
        if not due:
            return
        process = min(due, key=lambda p: (self._looks[p.key].count > 0, self._looks[p.key].due))
        looks = self._looks[process.key]
        looks.count += 1
        looks.pause_seconds = min(looks.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        looks.due = now + looks.pause_seconds
        began = time.thread_time()
        try:
            self._write(process, looks, writer)
        finally:
            self._rest_until = now + (time.thread_time() - began) / MOST_CPU_SHARE

    def _write(self, process: Process, looks: _Looks, writer: RunWriter) -> None:
        from rerail.recorder.vitals import libraries

        found = libraries.inventory(process.pid)
        seen = hash(tuple(library.path for library in found))
        if found and seen != looks.written:
            looks.written = seen
            writer.write_json(f"maps/{process.key}.json", found)
