"""Keeping the tree up to date: by the kernel's connector where it may be used, else by scans.

In: the event loop and the tree. Out: births, changes and deaths told to the tree. Promises: on a
machine where much happens that is not ours, news is read in batches ten times a second instead of
one by one; a scan now and then finds what the connector lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rerail.recorder.loop import Loop
from rerail.recorder.process_events import Connector, ProcessScan, open_connector
from rerail.recorder.tree import Tree

# Waking up for others' processes takes some 80 µs each time: this many cost 0.2 % of a core.
MOST_WAKE_UPS_PER_SECOND = 25
MOST_PER_BATCH = 4096
CHANGES_SECONDS = 1.0
SCAN_SECONDS = 5.0


class ProcessNews:
    def __init__(self, loop: Loop, tree: Tree, miss: Callable[[str, str], None]) -> None:
        self._miss = miss
        self._loop = loop
        self._tree = tree
        self._connector: Connector | None = open_connector()
        self._scan = ProcessScan()
        list(self._scan.newcomers())  # who is there already is not ours
        self._is_immediate = False
        self._wake_ups = 0
        self._since = time.monotonic()
        self._scanned = 0.0
        self._listen()

    @property
    def descriptors(self) -> list[int]:
        return [self._connector.fileno()] if self._connector is not None else []

    def _listen(self) -> None:
        if self._connector is not None and not self._is_immediate:
            self._loop.watch(self._connector.fileno(), self._read)
            self._is_immediate = True

    def _read(self) -> None:
        assert self._connector is not None
        self._wake_ups += 1
        self._tree.handle(self._connector.read())
        if self._wake_ups > MOST_WAKE_UPS_PER_SECOND and self._is_immediate:
            self._loop.forget(self._connector.fileno())
            self._is_immediate = False

    def tick(self) -> None:
        """Ten times a second."""
        now = time.monotonic()
        if self._connector is None:
            self._tree.look_at(self._scan.newcomers())
            if now - self._scanned >= CHANGES_SECONDS:
                self._scanned = now
                self._tree.look_for_changes()
            return
        if not self._is_immediate:
            events = self._connector.read(MOST_PER_BATCH)
            self._wake_ups += len(events)  # as many as there would have been
            self._tree.handle(events)
        if now - self._since >= 1.0:
            if self._wake_ups <= MOST_WAKE_UPS_PER_SECOND:
                self._listen()
            self._wake_ups = 0
            self._since = now
        if self._connector.was_overrun or now - self._scanned >= SCAN_SECONDS:
            if self._connector.was_overrun:
                self._miss(
                    "short-lived processes", "more were started than could be followed at once"
                )
            self._connector.was_overrun = False
            self._scanned = now
            self._tree.look_at(self._scan.newcomers())

    def close(self) -> None:
        """Take in the last news, then stop listening."""
        if self._connector is not None:
            while events := self._connector.read(MOST_PER_BATCH):
                self._tree.handle(events)
            self._loop.forget(self._connector.fileno())
            self._connector.close()
            self._connector = None
