"""A study at work: starts cells, judges how they ended, collects what they made, goes on.

In: a `Study`, a store for the records, options. Out: the state of every cell. Promises: whatever
kills this process, the next `StudyRun` on the same folder goes on from the journal; a cell's death
touches no other cell; nothing that is there already is overwritten.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.errors import RerailError, UsageError
from rerail.investigation.applies import apply_changes
from rerail.investigation.candidates import why_not
from rerail.investigation.changes import parse_change
from rerail.investigation.profile import Profile, read_profile
from rerail.remedies.apply import merged
from rerail.remedies.resume import parse_resume_arguments
from rerail.scheduling import NotEnoughMemory, RunningTask, Scheduler, Task, open_scheduler
from rerail.store import RunFolder, Store
from rerail.study import artifacts, leftovers, needs, starting, usage, workspace
from rerail.study.cells import expand
from rerail.study.ending import Examiner, Verdict
from rerail.study.journal import Journal, StudyNotWritable
from rerail.study.metrics import read_metrics
from rerail.study.model import Study
from rerail.study.retrying import Decision, Setting, decide
from rerail.study.state import CellState, apply_event, fold
from rerail.study.watching import Silent, StudyOptions, Watcher

POLL_SECONDS = 0.05
STRAGGLER_SECONDS = 10.0  # for processes that a cell leaves behind when it ends well
_LOOK_SECONDS = 1.0  # between looks at limits and at the machine


@dataclass
class UnderWay:
    state: CellState
    running: RunningTask
    started: float
    stopped_because: str = ""

    def folder(self) -> RunFolder | None:
        path = self.running.folder()
        return None if path is None else RunFolder(path)

    def is_over(self) -> bool:
        """Also after its recorder was killed a guardian may still be writing its record."""
        if not self.running.is_over():
            return False
        folder = self.folder()
        try:
            return folder is None or not folder.is_live()
        except RerailError:
            return True


class StudyRun:
    def __init__(
        self,
        study: Study,
        store: Store,
        options: StudyOptions | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.study = study
        self.store = store
        self.options = options or StudyOptions()
        self.watcher: Watcher = watcher or Silent()
        self.jobs = self.options.jobs or study.limits.jobs
        self.environ = dict(os.environ)
        self.examiner = Examiner()
        self.under_way: list[UnderWay] = []
        self.journal = Journal(study.folder)
        cells = expand(study)
        _check_only(self.options.only, [cell.name for cell in cells])
        self.states = fold(cells, starting.events_of(study))
        self._said_need = False
        self._next_look = 0.0
        self._warned: set[str] = set()

    def run(self) -> dict[str, CellState]:
        """Until every cell is done or given up, or there is no room for another."""
        before = os.environ.get(leftovers.STUDY_VARIABLE)
        # Recorders inherit it: if we are killed, the next start finds them by it.
        os.environ[leftovers.STUDY_VARIABLE] = str(self.study.folder)
        try:
            scheduler = open_scheduler(self.options.scheduler, self.jobs)
            try:
                self._work(scheduler)
            except KeyboardInterrupt:
                self._interrupt()
                raise
            finally:
                scheduler.close()
        finally:
            if before is None:
                del os.environ[leftovers.STUDY_VARIABLE]
            else:
                os.environ[leftovers.STUDY_VARIABLE] = before
            self.journal.close()
        return self.states

    def _work(self, scheduler: Scheduler) -> None:
        starting.take_up(self)
        self.journal.write("study-started", pid=os.getpid(), cells=len(self.states))
        self._say_need(scheduler)
        while True:
            self._start_what_fits(scheduler)
            if not self.under_way:
                break
            time.sleep(POLL_SECONDS)
            self._look_after()
            for each in [each for each in self.under_way if each.is_over()]:
                self._finish(each)
                self._say_need(scheduler)
        self.journal.write("study-ended", done=self._count("done"), failed=self._count("failed"))

    # -- starting -----------------------------------------------------------------------------

    def _start_what_fits(self, scheduler: Scheduler) -> None:
        while len(self.under_way) < self._jobs_now():
            state = self._next()
            if state is None:
                return
            lacking = needs.shortage(
                self._need(), needs.read_machine(self.study.folder), len(self.under_way)
            )
            if lacking:
                if not self.under_way:
                    self._warn(f"stopped before {state.cell.name}: {lacking}")
                    self.watcher.said("make room and start it again: it goes on from here")
                return
            self._start(state, scheduler)

    def _jobs_now(self) -> int:
        """One until a first cell has told what a cell takes."""
        return self.jobs if self.jobs == 1 or self._usages() else 1

    def _next(self) -> CellState | None:
        """What was interrupted first, then new cells, then those that died before."""
        waiting = [
            state
            for state in self.states.values()
            if state.state == "waiting"
            and (not self.options.only or state.cell.name in self.options.only)
        ]

        def turn(state: CellState) -> int:
            if state.last is None:
                return 1
            return 0 if state.last.verdict == "interrupted" else 2

        return min(waiting, key=turn, default=None)

    def _start(self, state: CellState, scheduler: Scheduler) -> None:
        cell, last = state.cell, state.last
        number = len(state.attempts) + 1
        checkpoint = workspace.prepare(self.study, cell, number)
        work = workspace.work_folder(self.study, cell)
        changes = last.next_changes if last else ()
        words, environ = self._command(state, changes, checkpoint)
        label = f"study {self.study.name} {cell.name} {number} {os.urandom(3).hex()}"
        resumed = str(checkpoint) if checkpoint else ""
        self.note(
            state,
            "cell-started",
            attempt=number,
            label=label,
            key=cell.key,
            changes=list(changes),
            resumed_from=resumed,
        )
        task = Task(
            command=words,
            cwd=str(work),
            home=str(self.store.home.absolute()),
            environ=environ,
            label=label,
            stall_seconds=self.study.limits.stall_seconds,
            settings={"study": self.study.name, "cell": cell.name, "changes": list(changes)},
            cores=self._cores(),
        )
        running = scheduler.start(task)
        self.under_way.append(UnderWay(state, running, time.monotonic()))
        how = f", attempt {number}" if number > 1 else ""
        how += f", from {resumed}" if resumed else ""
        self.watcher.cell(cell.name, f"started{how}")

    def _command(
        self, state: CellState, changes: Sequence[str], checkpoint: Path | None
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        environ = {
            **self.environ,
            **state.cell.environment,
            leftovers.STUDY_VARIABLE: str(self.study.folder),
        }
        words: Sequence[str] = state.cell.command
        resume = self.study.resume
        if checkpoint is not None and resume is not None and resume.arguments:
            arguments = parse_resume_arguments(shlex.join(resume.arguments))
            resumed = arguments.apply(words, environ, checkpoint)
            words, environ = resumed.command, {**environ, **resumed.variables}
        if changes:
            profile = self._profile(state)
            parsed = [parse_change(text) for text in changes]
            usable = [c for c in parsed if why_not(c, profile, words, environ) is None]
            changed = apply_changes(words, environ, usable, profile)
            words, environ = changed.command, {**environ, **changed.variables}
        return tuple(words), environ

    def _profile(self, state: CellState) -> Profile:
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

    def _cores(self) -> tuple[int, ...]:
        wanted = self.study.limits.cores
        if wanted is None or self.jobs > 1 or not hasattr(os, "sched_getaffinity"):
            return ()
        own = sorted(os.sched_getaffinity(0))
        if wanted > len(own):
            raise UsageError(f"limits.cores is {wanted}: there are {len(own)} processors here")
        return tuple(own[:wanted])

    # -- while they run -----------------------------------------------------------------------

    def _look_after(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        for each in self.under_way:
            why = self._over_limit(each)
            if why:
                each.stopped_because = why
                each.running.stop()
        machine = needs.read_machine(self.study.folder)
        if machine.disk_bytes is not None and machine.disk_bytes < needs.SPARE_DISK_BYTES:
            self._warn("the disk is nearly full: cells may fail to write")
        files = needs.system_files()
        if files and files[0] > 0.95 * files[1]:
            self._warn(f"the machine has {files[0]} of {files[1]} files open")

    def _over_limit(self, each: UnderWay) -> str:
        limits = self.study.limits
        if limits.time_seconds and time.monotonic() - each.started > limits.time_seconds:
            return f"stopped by the study: over its time limit of {limits.time_seconds:.0f} s"
        if limits.memory_bytes:
            folder = each.folder()
            rss = usage.rss_now(folder) if folder is not None else 0.0
            if rss > limits.memory_bytes:
                return (
                    f"stopped by the study: {rss / 2**20:.0f} MiB of memory, over its limit of"
                    f" {limits.memory_bytes / 2**20:.0f} MiB"
                )
        return ""

    def _interrupt(self) -> None:
        self.watcher.said("interrupted: ending what runs; the same command goes on later")
        for each in list(self.under_way):
            if each.is_over():
                self._finish(each)
                continue
            each.running.stop()
            folder = each.folder()
            verdict = self.examiner.interrupted(folder, "the study was interrupted")
            self.note(each.state, "cell-ended", **verdict.as_event())
            self.under_way.remove(each)

    # -- when they end ------------------------------------------------------------------------

    def _finish(self, each: UnderWay) -> None:
        self.under_way.remove(each)
        self.conclude(each.state, each.folder(), each.stopped_because, each.running.problem() or "")

    def conclude(
        self, state: CellState, folder: RunFolder | None, stopped: str = "", problem: str = ""
    ) -> None:
        """An attempt is over: write down how, and what follows from it."""
        cell = state.cell
        outcome = folder.info().outcome if folder is not None else None
        is_well = outcome is not None and outcome.kind == "ok" and not stopped
        patience = STRAGGLER_SECONDS if is_well else 0.0
        if not leftovers.wait_for_stragglers(self.study.folder, cell.name, patience):
            count = leftovers.end_leftovers(self.study.folder, cell.name)
            self.watcher.cell(cell.name, f"left {count} processes behind: ended")
        verdict = self._verdict(state, folder, stopped, problem)
        verdict.usage["seconds"] = verdict.seconds
        verdict.usage["disk_bytes"] = float(
            workspace.disk_bytes(workspace.work_folder(self.study, cell))
        )
        if verdict.verdict == "ok":
            self.note(state, "cell-ended", **verdict.as_event())
            self.complete(state, folder)
            return
        decision = self._decide(state, verdict, folder)
        self.note(
            state,
            "cell-ended",
            **verdict.as_event(),
            decision=decision.why,
            next_changes=list(decision.changes),
        )
        why = f"{verdict.cause.id}: " if verdict.cause else ""
        self.watcher.cell(cell.name, f"{why}{verdict.summary}")
        self.watcher.cell(cell.name, decision.why)
        if not decision.retries:
            self.note(state, "cell-failed", why=f"{verdict.summary}; {decision.why}")

    def _verdict(
        self, state: CellState, folder: RunFolder | None, stopped: str, problem: str
    ) -> Verdict:
        if folder is None:
            return self._without_record(state, problem)
        if stopped:
            return self.examiner.stopped(folder, stopped)
        outcome = folder.info().outcome
        lacking: list[str] = []
        if outcome is not None and outcome.kind == "ok":
            work = workspace.work_folder(self.study, state.cell)
            lacking = artifacts.complaints(work, self.study.artifacts)
        return self.examiner.examine(folder, incomplete=_in_one_line(lacking))

    def _without_record(self, state: CellState, problem: str) -> Verdict:
        """Either there is no such program, or its recorder did not live to begin."""
        from rerail.recorder.launch import CommandNotStarted, find_program

        try:
            find_program(state.cell.command[0], {**self.environ, **state.cell.environment})
        except CommandNotStarted as error:
            return Verdict("died", f"it could not be started: {error.message}", 0.0)
        return self.examiner.lost(f"there is no record of it: {problem or 'it was killed'}")

    def _decide(self, state: CellState, verdict: Verdict, folder: RunFolder | None) -> Decision:
        last = state.last
        if verdict.ended is None or last is None:
            return Decision(False, (), "trying again would not help")
        cause = verdict.cause.id if verdict.cause else None
        tried = sum(1 for a in state.deaths if a.cause == cause and a is not last)
        setting = Setting(
            last.changes,
            state.cell.command,
            {**self.environ, **state.cell.environment},
            read_profile(folder) if folder is not None else Profile(),
        )
        worker = self.examiner.candidate("worker-crashed") if verdict.ended.in_worker else None
        return decide(verdict.ended, tried, self.study.limits.retries, setting, worker)

    def complete(self, state: CellState, folder: RunFolder | None) -> None:
        """The run ended well and its files are whole: collect them, and it is done."""
        cell, study = state.cell, self.study
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
            self.note(state, "cell-failed", why=str(error))
            self.watcher.cell(cell.name, str(error))
            return
        except OSError as error:
            raise StudyNotWritable(
                f"cannot collect the files of {cell.name} into {target}: {error}",
                "Make room and start the study again: the files are still where they were.",
            ) from None
        self.done(state, {**facts, "files": [vars(each) for each in files]})
        told = ", ".join(f"{name} {value:.5g}" for name, value in values.items())
        seconds = last.seconds if last and last.seconds else 0.0
        self.watcher.cell(cell.name, f"done in {seconds:.1f} s{': ' + told if told else ''}")
        for name, reason in missing.items():
            self.watcher.cell(cell.name, f"no {name}: {reason}")

    def done(self, state: CellState, manifest: dict[str, Any]) -> None:
        self.note(
            state,
            "cell-done",
            key=manifest.get("key"),
            files=manifest["files"],
            metrics=manifest.get("metrics", {}),
            missing_metrics=manifest.get("missing_metrics", {}),
        )
        self.tidy(state)

    def tidy(self, state: CellState) -> None:
        work = workspace.work_folder(self.study, state.cell)
        target = workspace.result_folder(self.study, state.cell)
        artifacts.forget_originals(work, target, state.files)
        workspace.tidy(self.study, state.cell)

    # -- what is known ------------------------------------------------------------------------

    def note(self, state: CellState, kind: str, **fields: Any) -> None:
        """Into the journal first, then into memory, by the same rule."""
        self.journal.write(kind, cell=state.cell.name, **fields)
        apply_event(state, {"kind": kind, "unix": time.time(), **fields})

    def _usages(self) -> list[dict[str, float]]:
        return [
            attempt.usage
            for state in self.states.values()
            for attempt in state.attempts
            if attempt.verdict == "ok"
        ]

    def _need(self) -> needs.Need | None:
        left = sum(s.state in ("waiting", "running") for s in self.states.values())
        return needs.estimate(self._usages(), left, self.jobs)

    def _say_need(self, scheduler: Scheduler) -> None:
        """Once, as soon as a first cell has been measured."""
        need = self._need()
        if self._said_need or need is None or need.cells_left == 0:
            return
        self._said_need = True
        for line in needs.in_words(need, needs.read_machine(self.study.folder)):
            self.watcher.said(line)
        if self.jobs == 1:
            return
        try:
            scheduler.admit(need.memory_bytes)
        except NotEnoughMemory as error:
            self.jobs = error.fits
            self.watcher.said(f"{error.message}: going on with {error.fits} at a time")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.journal.write("note", text=text)
            self.watcher.said(text)

    def _count(self, wanted: str) -> int:
        return sum(state.state == wanted for state in self.states.values())


def _check_only(only: Sequence[str], names: Sequence[str]) -> None:
    for name in only:
        if name not in names:
            import difflib

            close = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {close[0]}?" if close else "`rerail study status` lists them."
            raise UsageError(f"there is no cell {name!r}", hint)


def _in_one_line(complaints: Sequence[str]) -> str:
    shown = "; ".join(complaints[:3])
    return f"{shown}; and {len(complaints) - 3} more" if len(complaints) > 3 else shown
