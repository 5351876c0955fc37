"""What others ask of a study: to run it, and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rerail.store import Store
    from rerail.study.model import Study
    from rerail.study.state import CellState
    from rerail.study.watching import StudyOptions, StudyWatcher


def run_study(
    study: Study,
    store: Store,
    options: StudyOptions | None = None,
    watcher: StudyWatcher | None = None,
) -> dict[str, CellState]:
    """Run what is not done yet; the state of every cell, by name."""
    from rerail.study.run import StudyRun
    from rerail.study.session import StudySession

    session = StudySession(study, store, options, watcher)
    try:
        return StudyRun(session).run()
    finally:
        session.close()


def read_states(study: Study) -> dict[str, CellState]:
    """Return the state of every cell: from the journal, and whether its results are still there."""
    from rerail.study.artifacts import what_is_missing
    from rerail.study.cells import expand
    from rerail.study.journal import read_journal
    from rerail.study.state import fold
    from rerail.study.workspace import result_folder

    states = fold(expand(study), read_journal(study.folder))
    for state in states.values():
        if state.state == "done":
            state.damage = what_is_missing(result_folder(study, state.cell))
    return states
