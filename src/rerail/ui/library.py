"""What the pages read of the store: runs by their ids, kept while nothing about them has changed.

In: a store's home and ids that somebody typed into an address. Out: records, documents, output,
masked as `rerail report` masks them. Promises: an id is one of the store's own, its folder a folder
and no link, so that no address reaches outside the store; everything here may be called from any
thread.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail import api
from rerail.diagnosis import Diagnosis, answer_on_record, diagnosis_on_record
from rerail.errors import RerailError, UnknownRun
from rerail.live import LiveView, build, take_snapshot
from rerail.privacy import Redactor
from rerail.report import Document, MaskedOutput, build_report, page_top, redactor_of
from rerail.report.run_list import Entry, entries_of, run_entry
from rerail.store import OutputReader, RunFolder, Store, layout
from rerail.ui.kept import Kept
from rerail.ui.vitals_table import VitalsTable

LIVE_SECONDS = 5.0  # how long what was read of a live run may be shown again
LIST_SECONDS = 1.0
LISTED_SECONDS = 20.0
LEARN_SECONDS = 60.0  # how often what masks the output of a live run learns anew
# What a page is made of: when one of these changes, it is made anew.
_PARTS = (
    layout.RUN,
    layout.DIAGNOSIS,
    layout.EVENTS,
    layout.OUTPUT,
    layout.CRASHES,
    "investigation.json",
    "verification.json",
)


class Library:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home)
        self._documents: Kept[Document] = Kept(6)
        self._redactors: Kept[Redactor] = Kept(32)
        self._tops: Kept[Document] = Kept(64)
        self._answers: Kept[Diagnosis] = Kept(64)
        self._tables: Kept[VitalsTable] = Kept(8)
        self._listings: Kept[tuple[api.Runs, list[Entry]]] = Kept(1)
        self._fresh: Kept[tuple[api.Runs, list[Entry]]] = Kept(1)
        self._live: tuple[str, ...] = ()
        self._standings: Kept[LiveView] = Kept(64)

    def prepare(self) -> None:
        """The list is what is asked for first; of many runs it takes half a second."""
        with suppress(RerailError):
            self.listing()

    def folder(self, run_id: str) -> RunFolder:
        """The run of exactly this id. UnknownRun if the store has none."""
        if run_id in self.store.own_ids():
            return self.store.resolve_inside(run_id)
        raise UnknownRun(f"no run {run_id[:80]!r} in this store", "The list has all of them.")

    def run(self, run_id: str) -> api.Run:
        return api.Run(self.folder(run_id).path, self.store)

    def listing(self) -> tuple[api.Runs, list[Entry]]:
        """The runs on record, newest first, and the rows that stand for them.

        All are listed anew when a run has begun, ended or gone, and now and then for what else may
        have changed; the rows of live runs are never older than LIST_SECONDS.
        """

        def make() -> tuple[api.Runs, list[Entry]]:
            runs = api.runs(self.home)
            own = set(self.store.own_ids())
            runs[:] = [run for run in runs if run.id in own]
            self._live = tuple(run.id for run in runs if run.state == "running")
            return runs, entries_of(runs, self.home)

        kept = self._listings.get("all", self._state_of_list(), make)
        return self._fresh.get(
            "all", int(time.monotonic() / LIST_SECONDS), lambda: self._renewed(*kept)
        )

    def _renewed(self, runs: api.Runs, entries: list[Entry]) -> tuple[api.Runs, list[Entry]]:
        """Live runs first, as they stand now; the others as they were listed."""
        by_id = {run.id: run for run in runs}
        rows = [self._now(entry, by_id) if _is_live(entry) else entry for entry in entries]
        rows.sort(key=lambda entry: not _is_live(entry))
        return runs, rows

    def _now(self, entry: Entry, by_id: dict[str, api.Run]) -> Entry:
        if entry.members:
            inside = (self._now(m, by_id) if _is_live(m) else m for m in entry.members)
            return replace(entry, members=tuple(inside))
        try:
            return run_entry(api.Run(by_id[entry.id].folder, self.store))
        except RerailError:
            return entry  # it goes away just now

    def _state_of_list(self) -> Any:
        """Changes when a run begins, ends or is removed, and every LISTED_SECONDS."""
        moment = int(time.monotonic() / LISTED_SECONDS)
        folders = [_size_and_time(path) for path in (self.store.runs, self.home / "investigations")]
        return moment, folders, [_is_running(self.store.runs / run_id) for run_id in self._live]

    def answer(self, folder: RunFolder) -> Diagnosis | None:
        """The diagnosis on record, or a new one; of a live run nothing is asked."""
        if folder.info().state == "running":
            return None

        def make() -> Diagnosis:
            return answer_on_record(folder, self.store.history(folder.info()))

        return self._answers.get(folder.id, _stamp(folder), make)

    def top(self, folder: RunFolder) -> Document:
        answer = diagnosis_on_record(folder)
        if answer is None and self.run(folder.id).has_failed:
            answer = self.answer(folder)  # nobody has asked yet: the page must not guess
        return self._tops.get(folder.id, _stamp(folder), lambda: page_top(folder, answer))

    def document(self, folder: RunFolder) -> Document:
        """Everything that the report has; of a live run as it stood some seconds ago."""

        def make() -> Document:
            return build_report(folder, self.store.history(folder.info()))

        return self._documents.get(folder.id, _stamp(folder), make)

    def redactor(self, folder: RunFolder) -> Redactor:
        """What masks the output. That of a live run learns anew every minute."""
        stamp = _stamp(folder)
        stamp = int(time.monotonic() / LEARN_SECONDS) if isinstance(stamp, int) else stamp
        answer = diagnosis_on_record(folder)
        return self._redactors.get(folder.id, stamp, lambda: redactor_of(folder, answer))

    def output(self, folder: RunFolder) -> OutputReader:
        return MaskedOutput(folder.output(), self.redactor(folder))

    def table(self, folder: RunFolder) -> VitalsTable:
        return self._tables.get(folder.id, None, lambda: VitalsTable(folder))

    def standing(self, folder: RunFolder) -> LiveView:
        def make() -> LiveView:
            return build(take_snapshot(folder))

        return self._standings.get(folder.id, int(time.monotonic() / 2), make)


def _is_live(entry: Entry) -> bool:
    return entry.state in ("live", "stuck")


def _is_running(path: Path) -> bool:
    try:
        return RunFolder(path).is_live()
    except RerailError:
        return False


def _stamp(folder: RunFolder) -> Any:
    """Of a live run the time, in steps of seconds: its files change all the time."""
    try:
        if folder.is_live():
            return int(time.monotonic() / LIVE_SECONDS)
    except RerailError:
        pass
    return [(name, *_size_and_time(folder.path / name)) for name in _PARTS]


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = os.lstat(path)
        return status.st_size, status.st_mtime_ns
    except OSError:
        return -1, 0
