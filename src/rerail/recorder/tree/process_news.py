"""Keeping the tree up to date: by the kernel's connector where it may be used, else by scans.

In: the event loop and the tree. Out: births, changes and deaths told to the tree. Promises: news of
the tree's own processes is read at once, that of the rest of the machine in batches ten times a
second; a scan now and then finds what the connector lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rerail.recorder.run.loop import Loop
from rerail.recorder.tree.process_events import Bell, Connector, ProcessScan, open_connector
from rerail.recorder.tree.processes import Tree

# A tree that forks all the time is read in batches too, once it has used this many wake-ups up;
# they come back slowly. A family that starts is looked at process by process, a loop is not.
MOST_WAKE_UPS = 100
WAKE_UPS_PER_SECOND = 20
MOST_PER_BATCH = 4096
MOST_BATCHES = 16  # then something else has its turn, however fast the machine forks
CHANGES_SECONDS = 1.0
SCAN_SECONDS = 10.0


class ProcessNews:
    def __init__(self, loop: Loop, tree: Tree, miss: Callable[[str, str], None]) -> None:
        self._loop = loop
        self._tree = tree
        self._miss = miss
        self._connector: Connector | None = open_connector()
        self._bell: Bell | None = Bell.hang() if self._connector is not None else None
        self._scan = ProcessScan()
        list(self._scan.newcomers())  # who is there already is not ours
        self._is_watching = False
        self._heard_for: list[int] = []
        self._wake_ups = 0
        self._since = time.monotonic()
        self._scanned = time.monotonic()
        self._watch()

    @property
    def descriptors(self) -> list[int]:
        return [link.fileno() for link in (self._connector, self._bell) if link is not None]

    def tick(self) -> None:
        """Ten times a second."""
        now = time.monotonic()
        if self._connector is None:
            self._tree.look_at(self._scan.newcomers())
            if now - self._scanned >= CHANGES_SECONDS:
                self._scanned = now
                self._tree.look_for_changes()
            return
        self._take_in(self._connector)
        if now - self._since >= 1.0:
            self._wake_ups = max(self._wake_ups - int((now - self._since) * WAKE_UPS_PER_SECOND), 0)
            self._since = now
            self._watch()
        if self._connector.was_overrun or now - self._scanned >= SCAN_SECONDS:
            self._admit_losses(self._connector)
            self._scanned = now
            self._tree.look_at(self._scan.newcomers())

    def close(self) -> None:
        """Take in the last news, then stop listening."""
        if self._bell is not None:
            self._loop.forget(self._bell.fileno())
            self._bell.close()
            self._bell = None
        if self._connector is not None:
            self._take_in(self._connector)
            self._admit_losses(self._connector)
            self._connector.close()
            self._connector = None

    def _admit_losses(self, connector: Connector) -> None:
        if connector.was_overrun:
            connector.was_overrun = False
            self._miss("short-lived processes", "more were started than could be followed at once")

    def follow_tree(self) -> None:
        """Hear of exactly the processes that are alive; of nobody while news is read in batches."""
        living = list(self._tree.living) if self._is_watching else []
        if self._bell is not None and living != self._heard_for:
            self._heard_for = living
            self._bell.listen_for(living)

    def _watch(self) -> None:
        if self._bell is not None and not self._is_watching:
            self._loop.watch(self._bell.fileno(), self._rung)
            self._is_watching = True
            self.follow_tree()

    def _rung(self) -> None:
        assert self._connector is not None and self._bell is not None
        self._bell.silence()
        self._take_in(self._connector)
        self._wake_ups += 1
        if self._wake_ups > MOST_WAKE_UPS:
            self._loop.forget(self._bell.fileno())
            self._is_watching = False
            self.follow_tree()
            self._bell.silence()

    def _take_in(self, connector: Connector) -> None:
        for _ in range(MOST_BATCHES):
            self._tree.handle(connector.read(MOST_PER_BATCH))
            if not connector.has_more:
                break
        self.follow_tree()
