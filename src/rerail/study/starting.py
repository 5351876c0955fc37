"""Taking a study up: what an earlier start left is settled before anything new begins.

In: a `StudySession` whose lock is held, so that no other study is at work on the folder. Out: no
process of an earlier start is alive; every attempt has an ending; whatever was collected is on
record, and whatever was half collected is gone from the results (its originals are in the working
folder). A result that nobody knows, or that belongs to another command, stops the study.
"""

from __future__ import annotations

from rerail.errors import RerailError, UsageError
from rerail.store import RunFolder
from rerail.study import artifacts, leftovers, workspace
from rerail.study.concluding import complete, conclude, done, tidy
from rerail.study.ending import ended_by_itself
from rerail.study.session import StudySession
from rerail.study.state import CellState


def take_up(session: StudySession) -> None:
    # Before anything is told to end, and on record before: what ends after that did not end by
    # itself, also in the eyes of the start after this one.
    endings = {state.cell.name: _own_ending(session, state) for state in session.states.values()}
    for state in session.states.values():
        if state.open_attempt is not None and endings[state.cell.name] is None:
            _note_interruption(session, state)
    ended = leftovers.end_leftovers(session.study.folder)
    if ended:
        session.watcher.said(f"ended {ended} processes of an earlier start")
    artifacts.sweep_staging(session.study.results)
    for state in session.states.values():
        _settle(session, state, endings[state.cell.name])
    _refuse_changed(session)
    if session.options.tries_failed_again:
        for state in session.states.values():
            if state.state == "failed":
                session.note(state, "cell-again")


def _own_ending(session: StudySession, state: CellState) -> RunFolder | None:
    """The record of an attempt that was over before the study was, if there is one."""
    folder = _record_of(session, state)
    return folder if folder is not None and ended_by_itself(folder) else None


def _note_interruption(session: StudySession, state: CellState) -> None:
    folder = _record_of(session, state)
    verdict = session.examiner.interrupted(folder, "the study was killed while it ran")
    session.note(state, "cell-ended", **verdict.as_event())


def _record_of(session: StudySession, state: CellState) -> RunFolder | None:
    if state.open_attempt is None:
        return None
    try:
        return session.store.resolve(state.open_attempt.label)
    except RerailError:
        return None


def _settle(session: StudySession, state: CellState, ended: RunFolder | None) -> None:
    if ended is not None:
        conclude(session, state, ended)
    if state.state == "done":
        _check_results(session, state)
        return
    target = workspace.result_folder(session.study, state.cell)
    if target.exists():
        _recover(session, state)
    elif state.state == "waiting" and _has_ended_well(state):
        _collect_again(session, state)


def _has_ended_well(state: CellState) -> bool:
    last = state.last
    return last is not None and last.verdict == "ok" and last.key == state.cell.key


def _check_results(session: StudySession, state: CellState) -> None:
    """Done stays done, unless what it made is no longer there."""
    target = workspace.result_folder(session.study, state.cell)
    if not target.exists():
        session.watcher.cell(
            state.cell.name, f"its results are gone from {target}: it is run again"
        )
        session.note(state, "cell-again")
        return
    state.damage = artifacts.what_is_missing(target)
    for problem in state.damage:
        session.watcher.cell(state.cell.name, f"done, but {problem}")
    tidy(session, state)


def _recover(session: StudySession, state: CellState) -> None:
    """Killed between the move and the journal: the results are there and know whose they are."""
    cell = state.cell
    target = workspace.result_folder(session.study, cell)
    manifest = artifacts.read_manifest(target)
    is_own = manifest is not None and manifest.get("key") == cell.key
    if manifest is None or not is_own or manifest.get("cell") != cell.name:
        raise artifacts.ResultsInTheWay(
            f"{target} is there already, and not from this study's {cell.name}",
            "Nothing was overwritten. Move it away, or give the study another name or `results`.",
        )
    done(session, state, manifest)
    session.watcher.cell(cell.name, "done: its results were collected before the study was killed")


def _collect_again(session: StudySession, state: CellState) -> None:
    """Killed after the run had ended well, before its files were collected."""
    work = workspace.work_folder(session.study, state.cell)
    lacking = artifacts.complaints(work, session.study.artifacts)
    if lacking:
        session.watcher.cell(state.cell.name, f"{lacking[0]} any more: it is run again")
        return
    assert state.last is not None
    try:
        folder: RunFolder | None = session.store.resolve(state.last.run)
    except RerailError:
        folder = None
    complete(session, state, folder)


def _refuse_changed(session: StudySession) -> None:
    changed = [s for s in session.states.values() if s.state == "done" and s.changed_since]
    if not changed:
        return
    name = changed[0].cell.name
    count = f"{len(changed)} finished cells" if len(changed) > 1 else f"the finished {name}"
    raise UsageError(
        f"the study file now asks for something else of {count}",
        f"Their results are kept. Give the study another name, or move"
        f" {workspace.result_folder(session.study, changed[0].cell)}\naway to have it run again.",
    )
