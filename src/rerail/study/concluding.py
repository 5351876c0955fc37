"""An attempt is over: was the cell's work done, and what follows?

In: the session, the cell and the record of the attempt. Out: events in the journal, and for a cell
that is done its collected files. Promises: files are judged and collected only when no process of
the cell is alive; every step is on record before the next one builds on it, so that a kill between
any two of them is taken up by `starting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.changes import Profile, read_profile
from rerail.errors import RerailError
from rerail.recorder import CommandNotStarted, find_program
from rerail.remedies import Attempt
from rerail.store import RunFolder
from rerail.study import artifacts, leftovers, workspace
from rerail.study.ending import Verdict
from rerail.study.journal import StudyNotWritable
from rerail.study.metrics import read_metrics
from rerail.study.retrying import Decision, Ended, Setting, begun, decide
from rerail.study.session import StudySession
from rerail.study.state import CellState

STRAGGLER_SECONDS = 5.0  # for processes that a cell leaves behind when it ends


def conclude(
    session: StudySession,
    state: CellState,
    folder: RunFolder | None,
    stopped: str = "",
    problem: str = "",
) -> None:
    """`stopped`: why the study itself ended it; `problem`: why there is no record."""
    cell, study = state.cell, session.study
    patience = 0.0 if folder is None or stopped else STRAGGLER_SECONDS
    if not leftovers.wait_for_stragglers(study.folder, cell.name, patience):
        count = leftovers.end_leftovers(study.folder, cell.name)
        session.watcher.cell(cell.name, f"left {count} processes behind: ended")
    verdict = _verdict(session, state, folder, stopped, problem)
    verdict.usage["seconds"] = verdict.seconds
    verdict.usage["disk_bytes"] = float(workspace.disk_bytes(workspace.work_folder(study, cell)))
    if verdict.verdict == "ok":
        session.note(state, "cell-ended", **verdict.as_event())
        complete(session, state, folder)
        return
    decision = _decide(session, state, verdict, folder)
    # One line of the journal for the ending and for what follows: never one without the other.
    session.note(
        state,
        "cell-ended",
        **verdict.as_event(),
        decision=decision.why,
        next_changes=list(decision.changes),
        failure="" if decision.retries else f"{verdict.summary}; {decision.why}",
    )
    why = f"{verdict.cause.id}: " if verdict.cause else ""
    session.watcher.cell(cell.name, f"{why}{verdict.summary}")
    session.watcher.cell(cell.name, decision.why)


def complete(session: StudySession, state: CellState, folder: RunFolder | None) -> None:
    """The run ended well and its files are whole: collect them, and it is done."""
    cell, study = state.cell, session.study
    work, target = workspace.work_folder(study, cell), workspace.result_folder(study, cell)
    values, missing = read_metrics(study.metrics, work, folder)
    last = state.last
    facts: dict[str, Any] = {
        "study": study.name,
        "cell": cell.name,
        "key": cell.key,
        "parameters": cell.parameters,
        "seed": cell.seed,
        "command": list(cell.command),
        "changes": list(last.changes) if last else [],
        "run": last.run if last else "",
        "metrics": values,
        "missing_metrics": missing,
    }
    try:
        files = artifacts.collect(work, target, study.artifacts, facts)
    except (artifacts.StillChanging, artifacts.ResultsInTheWay) as error:
        session.note(state, "cell-failed", why=str(error))
        session.watcher.cell(cell.name, str(error))
        return
    except OSError as error:
        raise StudyNotWritable(
            f"cannot collect the files of {cell.name} into {target}: {error}",
            "Make room and start the study again: the files are still where they were.",
        ) from None
    done(session, state, {**facts, "files": [vars(each) for each in files]})
    told = ", ".join(f"{name} {value:.5g}" for name, value in values.items())
    seconds = last.seconds if last and last.seconds else 0.0
    session.watcher.cell(cell.name, f"done in {seconds:.1f} s{': ' + told if told else ''}")
    for name, reason in missing.items():
        session.watcher.cell(cell.name, f"no {name}: {reason}")


def done(session: StudySession, state: CellState, manifest: dict[str, Any]) -> None:
    """The files are where they belong: on record, and then the move is completed."""
    session.note(
        state,
        "cell-done",
        key=manifest.get("key"),
        files=manifest["files"],
        metrics=manifest.get("metrics", {}),
        missing_metrics=manifest.get("missing_metrics", {}),
    )
    tidy(session, state)


def tidy(session: StudySession, state: CellState) -> None:
    work = workspace.work_folder(session.study, state.cell)
    target = workspace.result_folder(session.study, state.cell)
    artifacts.forget_originals(work, target, state.files)
    workspace.tidy(session.study, state.cell)


def _verdict(
    session: StudySession, state: CellState, folder: RunFolder | None, stopped: str, problem: str
) -> Verdict:
    if folder is None:
        return _without_record(session, state, problem)
    try:
        return _from_record(session, state, folder, stopped)
    except RerailError as error:
        return session.examiner.lost(f"its record cannot be read: {error.message}")


def _from_record(
    session: StudySession, state: CellState, folder: RunFolder, stopped: str
) -> Verdict:
    if stopped:
        return session.examiner.stopped(folder, stopped)
    outcome = folder.info().outcome
    lacking: list[str] = []
    if outcome is not None and outcome.kind == "ok":
        work = workspace.work_folder(session.study, state.cell)
        lacking = artifacts.complaints(work, session.study.artifacts)
    return session.examiner.examine(folder, incomplete=_in_one_line(lacking))


def _without_record(session: StudySession, state: CellState, problem: str) -> Verdict:
    """Either there is no such program, or its recorder did not live to begin."""
    try:
        find_program(state.cell.command[0], {**session.environ, **state.cell.environment})
    except CommandNotStarted as error:
        return Verdict("died", f"it could not be started: {error.message}", 0.0)
    return session.examiner.lost(f"there is no record of it: {problem or 'it was killed'}")


def _decide(
    session: StudySession, state: CellState, verdict: Verdict, folder: RunFolder | None
) -> Decision:
    last = state.last
    if verdict.ended is None or last is None:
        return Decision(False, (), "trying again would not help")
    tried = sum(1 for a in state.deaths if a.cause == verdict.ended.cause)
    setting = Setting(
        last.changes,
        state.cell.command,
        {**session.environ, **state.cell.environment},
        Profile() if folder is None or verdict.ended.is_lost else read_profile(folder),
        resumes=_has_checkpoint(session, state, verdict.ended),
        resumed_from=last.resumed_from,
    )
    worker = session.examiner.dead_worker() if verdict.ended.in_worker else None
    earlier = _earlier_deaths(session, state, verdict.ended.cause)
    return decide(verdict.ended, tried, session.study.limits.retries, setting, worker, earlier)


def _earlier_deaths(session: StudySession, state: CellState, cause: str | None) -> list[Attempt]:
    """Attempts with this command that died of the same; those whose record is gone are left out."""
    found: list[Attempt] = []
    for each in state.deaths:
        has_died = each.verdict in ("died", "incomplete")
        if has_died and each.run and each.cause == cause and each.key == state.cell.key:
            try:
                death = session.examiner.death(session.store.resolve(each.run))
            except RerailError:
                continue
            found.append(begun(each.number, death, each.resumed_from))
    return found


def _has_checkpoint(session: StudySession, state: CellState, ended: Ended) -> bool:
    """Looked for only where it matters: reading a large checkpoint takes a while."""
    leading = ended.leading
    if leading is None or leading.cause.policy.retry != "from-checkpoint":
        return False
    return workspace.has_checkpoint(session.study, state.cell)


def _in_one_line(complaints: Sequence[str]) -> str:
    shown = "; ".join(complaints[:3])
    return f"{shown}; and {len(complaints) - 3} more" if len(complaints) > 3 else shown
