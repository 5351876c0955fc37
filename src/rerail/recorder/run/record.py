"""Run a command under the flight recorder: prepare, start, watch, end, conclude.

In: a command and a store. Out: a run folder that says what happened, and how the command ended.
Promises: the command sees the terminal, descriptors, signals and environment that it would have
seen (but for the documented variables); if anything here fails, the command goes on and the record
says what is missing; if this process is killed, the guardian goes on in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from rerail.platform import libc, proc_files
from rerail.platform.descriptors import occupy_closed_descriptors
from rerail.recorder.run import conclusion
from rerail.recorder.run.carrying_on import carry_on
from rerail.recorder.run.launch import CommandNotStarted, Launch, find_program
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.parts import Parts
from rerail.recorder.run.recording import Recording, RunOptions
from rerail.recorder.run.signals import SignalInbox
from rerail.recorder.run.terminal import survey
from rerail.recorder.run.watching import Watching
from rerail.recorder.tree.endings import Ending
from rerail.recorder.tree.process_news import ProcessNews
from rerail.records import Outcome
from rerail.store import SeparateWriter, Store, separate

GRACE_SECONDS = 0.2  # for descendants that end together with the root


def record(command: Sequence[str], store: Store, options: RunOptions | None = None) -> Recording:
    """Run the command to its end. Raises CommandNotStarted if there is no such program."""
    options = options or RunOptions()
    find_program(command[0], options.environ)
    run = _Run(list(command), store, options)  # prepares it
    try:
        root_pid = run.start()
    except BaseException as error:
        run.could_not_start(error)
    # From here on nothing of ours may change how this ends.
    try:
        run.watch()
        ending = run.wait_for_end()
        return run.conclude(ending)
    except Exception as error:
        return run.carry_on(root_pid, error)


def record_living(
    pid: int, command: Sequence[str], store: Store, options: RunOptions, attach: Attach
) -> Recording:
    """Follow a process that somebody else started, until it ends or is no longer to be followed.

    `attach` is called once the record is open. What the process prints is not seen.
    """
    run = _LivingRun(list(command), store, options, pid, attach)
    try:
        run.start()
    except BaseException as error:
        run.could_not_start(error)
    run.watch()
    return run.conclude(run.wait_for_end())


class _Run:
    # -- prepare ------------------------------------------------------------------------------

    def __init__(self, command: list[str], store: Store, options: RunOptions) -> None:
        self._command = command
        self._options = options
        cwd = _working_folder()
        self._standard = survey(occupy_closed_descriptors())
        inbox = SignalInbox()
        writer = store.create_run(command, cwd, options.settings(), self._standard.has_terminal)
        try:
            addresses = options.notifier.secrets if options.notifier is not None else []
            writer.keep_environment(options.environ, addresses)
            writer = separate(writer)
            self._parts = Parts(command, cwd, options, self._standard, inbox, writer)
        except BaseException as error:
            inbox.close()  # its descriptor may be the one that writing needs
            writer.finish(_not_recorded(error), writer.now())
            raise
        self._writer = writer
        self._attempt = self._parts.record.attempt
        self._watching = Watching(self._parts, options)

    # -- start --------------------------------------------------------------------------------

    def start(self) -> int:
        """The pid of the command; whatever is raised, it was not started."""
        parts, options = self._parts, self._options
        miss = parts.record.miss
        if not libc.become_subreaper():
            miss("orphans", "this system has no subreaper: the ends of orphans are unknown")
        if not proc_files.has_proc():
            miss("the tree", "this system has no /proc: only the command itself is followed")
        parts.news = self._attempt("the tree", lambda: ProcessNews(parts.loop, parts.tree, miss))
        self._start_companions()
        parts.streams.open_keyboard(parts.forwarding.key_pressed)
        stdio = parts.streams.stdio
        launch = Launch(
            self._command,
            {**options.environ, **parts.agent_variables},
            stdio.descriptors,
            self._standard.is_closed,
            parts.inbox.starting,
            has_own_terminal=stdio.is_interactive,
            has_own_group=options.has_own_group,
        )
        started_t = self._writer.now()
        pid = launch.start()
        self._has_started(pid, started_t)
        return pid

    def _start_companions(self) -> None:
        parts = self._parts
        not_theirs = [parts.inbox.descriptor]
        if parts.news is not None:
            not_theirs += parts.news.descriptors
        pids = parts.companions.start(
            parts.streams.stdio,
            parts.successor,
            not_theirs,
            owns_process=self._options.owns_process,
        )
        parts.tree.own_helpers.update(pids)
        if isinstance(self._writer, SeparateWriter):
            parts.tree.own_helpers.add(self._writer.pid)
        if self._options.notifier is not None:  # may still tell of the attempt before this one
            parts.tree.own_helpers.update(self._options.notifier.pids)
        sharing = self._options.sharing
        if sharing is not None:
            begun = self._attempt("sharing with the job", lambda: sharing.begin(self._writer.path))
            parts.tree.own_helpers.update(begun or [])

    def _has_started(self, pid: int, started_t: float) -> None:
        """The command runs: what fails here is missed in the record, and by nobody else."""
        parts, attempt = self._parts, self._attempt
        parts.streams.leave_to_command()
        parts.companions.note_root(pid)
        attempt("the tree", lambda: parts.tree.add_root(pid, self._command, started_t))
        if parts.news is not None:
            attempt("the tree", parts.news.follow_tree)
        attempt("pid of the command", lambda: self._writer.update_info(root_pid=pid))

    def could_not_start(self, error: BaseException) -> NoReturn:
        """No program, or no means to record it: leave nothing of ours behind, and say so."""
        self._attempt("end of output", self._parts.streams.stdio.close_inner_ends)
        if isinstance(error, CommandNotStarted):
            outcome = Outcome("exit", error.message, exit_code=error.exit_code)
        else:
            outcome = _not_recorded(error)
        self._parts.let_go()  # first: its descriptors may be those that writing needs
        self._attempt("ending", lambda: self._writer.finish(outcome, self._writer.now()))
        raise error

    # -- watch, until the end -----------------------------------------------------------------

    def watch(self) -> None:
        self._watching.begin()

    def wait_for_end(self) -> Ending:
        return self._watching.wait_for_end()

    # -- conclude -----------------------------------------------------------------------------

    def conclude(self, ending: Ending) -> Recording:
        parts = self._parts
        parts.sampling.close()
        parts.streams.let_rest_pass(lambda: bool(parts.tree.living), GRACE_SECONDS)
        parts.streams.close_keyboard()
        if parts.news is not None:
            parts.news.close()
        parts.tree.close()
        death = self._write_ending(ending)
        return self._recording(ending, death.outcome, death.swallowed)

    def _write_ending(self, ending: Ending) -> conclusion.Death:
        parts = self._parts
        processes = parts.tree.records()
        self._attempt("copies of black boxes", parts.box_copies.finish)
        if parts.gates is not None:
            self._attempt("gates", parts.gates.close)
        self._attempt("progress from the output", parts.progress.close)
        death = conclusion.write_death(
            parts.record,
            ending,
            processes,
            parts.kernel,
            hang=self._watching.last_hang,
            was_stopped_for_it=self._watching.has_killed,
            stopped_because=parts.gates.stopped_because if parts.gates is not None else None,
        )
        # Of a command that ended well within a moment nobody will ask for its surroundings.
        parts.surroundings.finish(is_wanted=death.outcome.kind != "ok")
        self._watching.close()
        self._writer.finish(death.outcome, death.elapsed_seconds)
        return death

    def carry_on(self, root_pid: int, error: Exception) -> Recording:
        """The recorder has failed: the command goes on, and we end as it ends."""
        parts = self._parts
        parts.record.failed("recorder", error)
        keyboard, stdio = parts.streams.keyboard, parts.streams.stdio
        ending = parts.tree.root.ending if parts.tree.root is not None else None
        if ending is None:
            if keyboard is not None:
                self._attempt("keyboard", keyboard.let_go)
            ending = carry_on(
                root_pid, stdio.channels, parts.inbox, has_own_terminal=stdio.is_interactive
            )
        known: Ending = ending
        elapsed = self._writer.now()
        death = self._attempt("ending", lambda: self._write_ending(known))
        if death is not None:
            return self._recording(known, death.outcome, death.swallowed)
        outcome = conclusion.outcome_of(known, elapsed, [], None)
        return self._recording(known, outcome, None)

    def _recording(self, ending: Ending, outcome: Outcome, swallowed: str | None) -> Recording:
        self._parts.let_go(must_relay_on=bool(self._parts.streams.relay.open_channels))
        return Recording(
            self._writer.path,
            outcome,
            ending.exit_code,
            ending.signal_number,
            self._writer.missing,
            had_swallowed_death=swallowed is not None,
            store_answers=self._writer.has_answered,
        )


class Attach(Protocol):
    """What the process needs to know: its folder and variables, and how to end the record."""

    def __call__(self, folder: Path, variables: dict[str, str], loop: Loop, end: End) -> None: ...


End = Callable[[int], None]  # with the exit code that the record shall say


class _LivingRun(_Run):
    def __init__(
        self,
        command: list[str],
        store: Store,
        options: RunOptions,
        pid: int,
        attach: Attach,
    ) -> None:
        super().__init__(command, store, options)
        self._pid = pid
        self._attach = attach

    def start(self) -> int:
        parts = self._parts
        parts.news = self._attempt(
            "the tree", lambda: ProcessNews(parts.loop, parts.tree, parts.record.miss)
        )
        self._start_companions()
        self._has_started(self._pid, self._writer.now())
        parts.record.miss("output", "the process was running when its record began")
        self._attach(self._writer.path, parts.agent_variables, parts.loop, self._end)
        return self._pid

    def _end(self, exit_code: int) -> None:
        self._parts.tree.root_ended(Ending(exit_code, source="told"))
        self._parts.loop.stop()


def _not_recorded(error: BaseException) -> Outcome:
    return Outcome("unknown", f"the command was not recorded ({type(error).__name__}: {error})")


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed under us; the command may not mind
        return Path(os.environ.get("PWD", "/"))
