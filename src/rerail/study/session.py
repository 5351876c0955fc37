"""What a study at work knows: the cells' states, and the journal that they come from.

`StudySession.note` is the only way in which a state changes: into the journal first, then into
memory, by the same rule by which the next start will read it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from rerail.changes import Profile, read_profile
from rerail.errors import RerailError, UsageError
from rerail.remedies import merged
from rerail.store import Store
from rerail.study import needs
from rerail.study.cells import expand
from rerail.study.ending import Examiner
from rerail.study.journal import Journal, read_journal
from rerail.study.model import Study
from rerail.study.state import CellState, apply_event, fold
from rerail.study.watching import Silent, StudyOptions, StudyWatcher


class StudySession:
    """Holds the lock of the study's folder until `close`."""

    def __init__(
        self,
        study: Study,
        store: Store,
        options: StudyOptions | None = None,
        watcher: StudyWatcher | None = None,
    ) -> None:
        self.study = study
        self.store = store
        self.options = options or StudyOptions()
        self.watcher: StudyWatcher = watcher or Silent()
        self.environ = dict(os.environ)
        self.examiner = Examiner(store)
        cells = expand(study)
        _check_only(self.options.only, [cell.name for cell in cells])
        self.journal = Journal(study.folder)
        self.states = fold(cells, read_journal(study.folder))
        self._warned: set[str] = set()

    def note(self, state: CellState, kind: str, **fields: Any) -> None:
        self.journal.write(kind, cell=state.cell.name, **fields)
        apply_event(state, {"kind": kind, "unix": time.time(), **fields})

    def warn(self, text: str) -> None:
        """Once each, and on record."""
        if text not in self._warned:
            self._warned.add(text)
            self.journal.write("note", text=text)
            self.watcher.said(text)

    def count(self, wanted: str) -> int:
        return sum(state.state == wanted for state in self.states.values())

    def usages(self) -> list[dict[str, float]]:
        """What attempts that finished took."""
        return [
            attempt.usage
            for state in self.states.values()
            for attempt in state.attempts
            if attempt.verdict == "ok"
        ]

    def need(self, jobs: int) -> needs.Need | None:
        left = self.count("waiting") + self.count("running")
        return needs.estimate(self.usages(), left, jobs)

    def profile(self, state: CellState) -> Profile:
        """What all recorded attempts together show of the command.

        Of an attempt with a remedy alone one would conclude that the remedy is not needed.
        """
        found = Profile()
        for attempt in state.attempts:
            if attempt.run:
                try:
                    found = merged(found, read_profile(self.store.resolve(attempt.run)))
                except RerailError:
                    continue  # the record was cleaned away
        return found

    def close(self) -> None:
        self.journal.close()


def _check_only(only: Sequence[str], names: Sequence[str]) -> None:
    for name in only:
        if name not in names:
            import difflib

            close = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {close[0]}?" if close else "`rerail study status` lists them."
            raise UsageError(f"there is no cell {name!r}", hint)
