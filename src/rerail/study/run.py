"""A study at work: starts cells, looks after them, and goes on when they end.

In: a `StudySession` whose lock is held, and a scheduler's name. Out: the state of every cell.
Promises: whatever kills this process, the next start on the same folder goes on from the journal; a
cell's death touches no other cell; nothing that is there already is overwritten.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rerail.changes import apply_changes, parse_change, why_not
from rerail.checkpoints import parse_resume_arguments
from rerail.errors import RerailError, UsageError
from rerail.scheduling import NotEnoughMemory, RunningTask, Scheduler, Task, open_scheduler
from rerail.store import RunFolder
from rerail.study import leftovers, needs, starting, usage, workspace
from rerail.study.concluding import conclude
from rerail.study.journal import StudyNotWritable
from rerail.study.session import StudySession
from rerail.study.state import CellState
from rerail.wording import bytes_in_words, seconds_in_words

POLL_SECONDS = 0.05
_LOOK_SECONDS = 1.0  # between looks at limits and at the machine
_MANY_FILES = 0.95  # of what the whole machine may have open


@dataclass
class UnderWay:
    state: CellState
    running: RunningTask
    started: float
    shm_before: dict[str, int]
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
    def __init__(self, session: StudySession) -> None:
        self.session = session
        self.study = session.study
        self.jobs = session.options.jobs or session.study.limits.jobs
        self.under_way: list[UnderWay] = []
        self._said_need = False
        self._next_look = 0.0

    def run(self) -> dict[str, CellState]:
        """Until every cell is done or given up, or there is no room for another."""
        with _marked(self.study.folder):
            scheduler = open_scheduler(self.session.options.scheduler, self.jobs)
            try:
                self._work(scheduler)
            except KeyboardInterrupt:
                self._interrupt()
                raise
            finally:
                scheduler.close()
        return self.session.states

    def _work(self, scheduler: Scheduler) -> None:
        session = self.session
        starting.take_up(session)
        session.journal.write("study-started", pid=os.getpid(), cells=len(session.states))
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
        session.journal.write(
            "study-ended", done=session.count("done"), failed=session.count("failed")
        )

    # -- starting -----------------------------------------------------------------------------

    def _start_what_fits(self, scheduler: Scheduler) -> None:
        while len(self.under_way) < self._jobs_now():
            state = self._next()
            if state is None:
                return
            lacking = needs.shortage(
                self.session.need(self.jobs),
                needs.read_machine(self.study.folder),
                len(self.under_way),
            )
            if lacking:
                if not self.under_way:
                    self.session.warn(f"stopped before {state.cell.name}: {lacking}")
                    self.session.watcher.said("make room and start it again: it goes on from here")
                return
            self._start(state, scheduler)

    def _jobs_now(self) -> int:
        """One until a first cell has told what a cell takes."""
        return self.jobs if self.jobs == 1 or self.session.usages() else 1

    def _next(self) -> CellState | None:
        """What was interrupted first, then new cells, then those that died before."""
        only = self.session.options.only
        waiting = [
            state
            for state in self.session.states.values()
            if state.state == "waiting" and (not only or state.cell.name in only)
        ]

        def turn(state: CellState) -> int:
            if state.last is None:
                return 1
            return 0 if state.last.verdict == "interrupted" else 2

        return min(waiting, key=turn, default=None)

    def _start(self, state: CellState, scheduler: Scheduler) -> None:
        cell, last = state.cell, state.last
        number = len(state.attempts) + 1
        checkpoint = self._prepare(state, number)
        changes = last.next_changes if last else ()
        words, environ = self._command(state, changes, checkpoint)
        label = f"study {self.study.name} {cell.name} {number} {os.urandom(3).hex()}"
        resumed = str(checkpoint) if checkpoint else ""
        self.session.note(
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
            cwd=str(workspace.work_folder(self.study, cell)),
            home=str(self.session.store.home.absolute()),
            environ=environ,
            label=label,
            stall_seconds=self.study.limits.stall_seconds,
            settings={"study": self.study.name, "cell": cell.name, "changes": list(changes)},
            cores=self._cores(),
        )
        running = scheduler.start(task)
        self.under_way.append(UnderWay(state, running, time.monotonic(), needs.shm_files()))
        how = f", attempt {number}" if number > 1 else ""
        how += f", from {resumed}" if resumed else ""
        self.session.watcher.cell(cell.name, f"started{how}")

    def _prepare(self, state: CellState, number: int) -> Path | None:
        is_same = state.last is None or state.last.key == state.cell.key
        try:
            return workspace.prepare(self.study, state.cell, number, can_resume=is_same)
        except OSError as error:
            raise StudyNotWritable(
                f"cannot make the folder of {state.cell.name}: {error}",
                "Make room and start the study again: it goes on where it stopped.",
            ) from None

    def _command(
        self, state: CellState, changes: Sequence[str], checkpoint: Path | None
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        environ = {
            **self.session.environ,
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
            profile = self.session.profile(state)
            parsed = [parse_change(text) for text in changes]
            usable = [c for c in parsed if why_not(c, profile, words, environ) is None]
            changed = apply_changes(words, environ, usable, profile)
            words, environ = changed.command, {**environ, **changed.variables}
        return tuple(words), environ

    def _cores(self) -> tuple[int, ...]:
        """Of several at once the scheduler gives each its share."""
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
            self.session.warn("the disk is nearly full: cells may fail to write")
        files = needs.system_files()
        if files and files[0] > _MANY_FILES * files[1]:
            self.session.warn(f"the machine has {files[0]} of {files[1]} files open")

    def _over_limit(self, each: UnderWay) -> str:
        limits = self.study.limits
        if limits.time_seconds and time.monotonic() - each.started > limits.time_seconds:
            words = seconds_in_words(limits.time_seconds)
            return f"stopped by the study: over its time limit of {words}"
        if limits.memory_bytes:
            folder = each.folder()
            rss = usage.rss_now(folder) if folder is not None else 0.0
            if rss > limits.memory_bytes:
                words = bytes_in_words(limits.memory_bytes)
                return (
                    f"stopped by the study: {bytes_in_words(rss)} of memory, its limit is {words}"
                )
        return ""

    def _finish(self, each: UnderWay) -> None:
        self.under_way.remove(each)
        problem = each.running.problem() or ""
        conclude(self.session, each.state, each.folder(), each.stopped_because, problem)
        if not self.under_way:
            self._look_for_lost_memory(each)

    def _look_for_lost_memory(self, each: UnderWay) -> None:
        """Files that a killed cell leaves in /dev/shm are memory lost to all that follow."""
        left = {n: size for n, size in needs.shm_files().items() if n not in each.shm_before}
        if sum(left.values()) > needs.SMALL_SHM_BYTES:
            names = ", ".join(sorted(left)[:3])
            self.session.warn(
                f"since {each.state.cell.name} {bytes_in_words(sum(left.values()))} more lie in"
                f" /dev/shm: {names}"
            )

    def _interrupt(self) -> None:
        session = self.session
        session.watcher.said("interrupted: ending what runs; the same command goes on later")
        for each in list(self.under_way):
            if each.is_over():
                self._finish(each)
                continue
            each.running.stop()
            verdict = session.examiner.interrupted(each.folder(), "the study was interrupted")
            session.note(each.state, "cell-ended", **verdict.as_event())
            self.under_way.remove(each)

    def _say_need(self, scheduler: Scheduler) -> None:
        """Once, as soon as a first cell has been measured."""
        need = self.session.need(self.jobs)
        if self._said_need or need is None or need.cells_left == 0:
            return
        self._said_need = True
        for line in needs.in_words(need, needs.read_machine(self.study.folder)):
            self.session.watcher.said(line)
        if self.jobs == 1:
            return
        try:
            scheduler.admit(need.memory_bytes)
        except NotEnoughMemory as error:
            self.jobs = error.fits
            self.session.watcher.said(f"{error.message}: going on with {error.fits} at a time")


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """Recorders inherit the mark: if we are killed, the next start finds them by it."""
    before = os.environ.get(leftovers.STUDY_VARIABLE)
    os.environ[leftovers.STUDY_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[leftovers.STUDY_VARIABLE]
        else:
            os.environ[leftovers.STUDY_VARIABLE] = before
