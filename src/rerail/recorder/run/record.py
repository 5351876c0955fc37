"""Run a command under the flight recorder.

In: a command and a store. Out: a run folder that says what happened, and how the command ended.
Promises: the command sees the terminal, descriptors, signals and environment that it would have
seen (but for the documented variables); if anything here fails, the command goes on and the record
says what is missing; if this process is killed, the guardian goes on in its place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rerail.platform import libc, proc_files
from rerail.recorder.run import conclusion
from rerail.recorder.run.canary import Canary
from rerail.recorder.run.carrying_on import carry_on
from rerail.recorder.run.channel import Channel
from rerail.recorder.run.descriptors import (
    close_inherited,
    occupy_closed_descriptors,
    point_at_null,
)
from rerail.recorder.run.forwarding import Forwarding
from rerail.recorder.run.guardian import Guardian, GuardianInputs
from rerail.recorder.run.keyboard import Keyboard
from rerail.recorder.run.launch import CommandNotStarted, Launch, find_program
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.recording import Recording, RunOptions
from rerail.recorder.run.relay import Relay
from rerail.recorder.run.signals import SignalInbox
from rerail.recorder.run.stdio import Stdio, connect, pass_through
from rerail.recorder.run.terminal import survey
from rerail.recorder.sampling import SAMPLE_SECONDS, Sampling
from rerail.recorder.stalls.watch import Stalling
from rerail.recorder.tree.endings import Ending, from_status
from rerail.recorder.tree.process_news import ProcessNews
from rerail.recorder.tree.processes import Tree
from rerail.records import Outcome
from rerail.store import RunWriter, Store, liveness

GRACE_SECONDS = 0.2  # for descendants that end together with the root
SLOW_READER_SECONDS = 0.3  # for output that somebody is slow to read; then the guardian goes on


def record(command: Sequence[str], store: Store, options: RunOptions | None = None) -> Recording:
    """Run the command to its end. Raises CommandNotStarted if there is no such program."""
    options = options or RunOptions()
    find_program(command[0], options.environ)
    return _Run(list(command), store, options).run()


class _Run:
    def __init__(self, command: list[str], store: Store, options: RunOptions) -> None:
        self._command = command
        self._options = options
        self._cwd = _working_folder()
        self._streams = survey(occupy_closed_descriptors())
        self._inbox = SignalInbox()
        self._writer: RunWriter = store.create_run(
            command, self._cwd, options.settings(), self._streams.has_terminal
        )
        try:
            self._writer.keep_environment(options.environ)
            self._loop = Loop(
                lambda what, error: self._miss(what, f"{type(error).__name__}: {error}")
            )
            self._tree = Tree(self._writer, self._loop, self._writer.t0_ns)
            self._sampling = Sampling(self._writer, self._tree, self._cwd)
            self._stdio: Stdio = self._attempt("output", lambda: connect(self._streams)) or (
                pass_through(self._streams)
            )
            self._relay = Relay(self._loop, self._stdio.channels, self._keep, self._channel_closed)
        except BaseException as error:
            self._inbox.close()  # its descriptor may be the one that writing needs
            self._writer.finish(_not_recorded(error), self._writer.now())
            raise
        self._guardian: Guardian | None = None
        self._canary: Canary | None = None
        self._keyboard: Keyboard | None = None
        self._news: ProcessNews | None = None
        self._stalling: Stalling | None = None
        self._sample_due = 0.0
        self._forwarding: Forwarding | None = None
        self._swallowed_death: str | None = None

    def run(self) -> Recording:
        try:
            root_pid = self._start()
        except BaseException as error:
            self._could_not_start(error)
        # From here on nothing of ours may change how this ends.
        try:
            self._watch(root_pid)
            self._loop_until_root_ended(root_pid)
            return self._conclude()
        except Exception as error:
            return self._carry_on(root_pid, error)

    # -- the start ----------------------------------------------------------------------------

    def _start(self) -> int:
        if not libc.become_subreaper():
            self._miss("orphans", "this system has no subreaper: the ends of orphans are unknown")
        if not proc_files.has_proc():
            self._miss("the tree", "this system has no /proc: only the command itself is followed")
        self._news = self._attempt(
            "the tree", lambda: ProcessNews(self._loop, self._tree, self._miss)
        )
        added = self._inject()
        self._sampling.plan_surroundings(self._command, self._options.environ, added)
        if proc_files.has_proc():
            self._canary = self._attempt("canary", Canary.start)
        self._guardian = self._attempt("guardian", lambda: Guardian.start(self._guardian_inputs()))
        for helper in (self._canary, self._guardian):
            if helper is not None:
                self._tree.own_helpers.add(helper.pid)
        environ = {**self._options.environ, **added}
        launch = Launch(
            self._command,
            environ,
            self._stdio.descriptors,
            self._streams.is_closed,
            self._inbox.starting,
            has_own_terminal=self._stdio.is_interactive,
        )
        if self._stdio.terminal is not None and self._stdio.outer is not None:
            self._keyboard = Keyboard(
                self._loop, self._stdio.outer, self._stdio.terminal, self._key_pressed
            )
        started_t = self._writer.now()
        pid = launch.start()
        self._after_start(pid, started_t, added)
        return pid

    def _after_start(self, pid: int, started_t: float, added: dict[str, str]) -> None:
        """The command runs: what fails here is missed in the record, and by nobody else."""
        guardian, news = self._guardian, self._news
        self._attempt("end of output", self._stdio.close_inner_ends)
        if self._options.owns_process:
            self._attempt("closing descriptors", close_inherited)
            if not self._stdio.is_interactive:
                self._attempt("closing standard input", lambda: point_at_null(0))
        if guardian is not None:
            self._attempt("guardian", lambda: guardian.note_root(pid))
        self._tree.on_start = self._sampling.note_process
        self._tree.on_end = self._sampling.process_ended
        self._attempt("the tree", lambda: self._tree.add_root(pid, self._command, started_t))
        if news is not None:
            self._attempt("the tree", news.follow_tree)
        self._attempt("pid of the command", lambda: self._writer.update_info(root_pid=pid))

    def _inject(self) -> dict[str, str]:
        if not self._options.use_agent:
            return {}

        def inject() -> dict[str, str]:
            from rerail.agent import inject

            injection = inject(
                self._writer.agent_dir,
                self._options.environ,
                self._command,
                self._writer.t0_ns,
                preload=self._options.preload,
                use_census=self._options.use_census,
            )
            for note in injection.notes:
                self._writer.event("note", text=note)
            return dict(injection.variables)

        return self._attempt("agent", inject) or {}

    def _guardian_inputs(self) -> GuardianInputs:
        def adopt(has_ended: bool) -> Callable[[bytes, str], None]:
            writer = RunWriter.adopt(self._writer.path)
            if not has_ended:
                own_pid = os.getpid()
                writer.update_info(
                    recorder_pid=own_pid, recorder_start_ticks=liveness.start_ticks(own_pid)
                )
                writer.event(
                    "missing",
                    what="recorder",
                    why="it was killed; vitals and the ends of processes are missing from here on",
                )
            self._writer = writer
            self._sampling.use(writer)
            return self._keep

        def close_run(root_pid: int, ending: Ending) -> None:
            self._tree = Tree(self._writer, self._loop, self._writer.t0_ns)
            self._writer.event(
                "process-ended",
                pid=root_pid,
                start=0,
                exit_code=ending.exit_code,
                signal=ending.signal,
                core=ending.dumped_core,
                source=ending.source,
            )
            self._write_ending(ending)

        # Left open there, the kernel would go on sending news, and the canary would outlive us.
        unneeded = [self._inbox.descriptor]
        if self._news is not None:
            unneeded += self._news.descriptors
        if self._canary is not None:
            unneeded.append(self._canary.fileno())
        return GuardianInputs(self._stdio, self._options.owns_process, unneeded, adopt, close_run)

    def _could_not_start(self, error: BaseException) -> NoReturn:
        """No program, or no means to record it: leave nothing of ours behind, and say so."""
        self._attempt("end of output", self._stdio.close_inner_ends)
        if isinstance(error, CommandNotStarted):
            outcome = Outcome("exit", error.message, exit_code=error.exit_code)
        else:
            outcome = _not_recorded(error)
        self._let_go()  # first: its descriptors may be those that writing needs
        self._attempt("ending", lambda: self._writer.finish(outcome, self._writer.now()))
        raise error

    # -- the run ------------------------------------------------------------------------------

    def _watch(self, root_pid: int) -> None:
        loop = self._loop
        self._relay.start()
        if self._keyboard is not None:
            self._attempt("keyboard", self._keyboard.attend)
        self._forwarding = Forwarding(
            root_pid,
            self._tree,
            self._writer,
            self._stdio,
            self._relay,
            lambda: self._keyboard,
            self._canary,
            self._check_root,
        )
        loop.watch(self._inbox.descriptor, self._read_signals)
        if self._guardian is not None:
            loop.watch(self._guardian.fileno(), self._guardian_spoke)
        loop.every(SAMPLE_SECONDS, "tree", self._tick, first=0.02)
        loop.every(SAMPLE_SECONDS, "sampling", self._sample, first=0.02)  # one wake-up for both
        pace = min(1.0, (self._options.stall_seconds or 4.0) / 4)
        loop.every(pace, "stall watch", self._look_for_stall, first=pace)

    def _loop_until_root_ended(self, root_pid: int) -> None:
        root = self._tree.root
        assert root is not None
        while root.ending is None:
            try:
                self._loop.run(until=time.monotonic() + 3600.0)
            except Exception as error:
                self._miss("recorder", f"{type(error).__name__}: {error}")
                time.sleep(0.01)  # whatever it is, the command is not to pay with our CPU time
            if root.ending is None and not _is_there(root_pid):
                self._tree.root_ended(Ending())

    def _tick(self) -> None:
        if self._news is not None:
            self._attempt("the tree", self._news.tick)
        self._attempt("the tree", self._tree.tick)
        self._sampling.catch_up()
        self._attempt("output", self._relay.drop_broken)
        if self._keyboard is not None:
            self._attempt("keyboard", self._keyboard.attend)
        # Whatever became of the descriptor's watch: nothing waits for ever.
        self._attempt("signals", self._read_signals)
        self._check_root()

    def _sample(self) -> None:
        # A wake-up costs as much as a small sample: later means at a later tick, not between two.
        now = time.monotonic()
        if now >= self._sample_due:
            self._sample_due = now + self._sampling.tick() - SAMPLE_SECONDS / 2

    def _read_signals(self) -> None:
        assert self._forwarding is not None
        for received in self._inbox.read():
            self._forwarding.handle(received)

    def _key_pressed(self, number: int) -> None:
        assert self._forwarding is not None
        self._forwarding.key_pressed(number)

    def _check_root(self) -> None:
        root = self._tree.root
        assert root is not None and self._forwarding is not None
        if root.ending is None:
            try:
                pid, status = os.waitpid(root.pid, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._forwarding.root_stopped(os.WSTOPSIG(status))
                return
            self._tree.root_ended(from_status(status, "wait"))
        self._loop.stop()

    def _look_for_stall(self) -> None:
        if self._stalling is None:
            self._stalling = Stalling(self._writer, self._tree, self._options)
        self._stalling.look(self._relay.bytes_total, self._sampling.cpu_seconds)

    def _keep(self, data: bytes, stream: str) -> None:
        # A record that cannot be written must not stop the output itself.
        self._attempt("output", lambda: self._writer.output(data, stream, self._writer.now()))

    def _channel_closed(self, channel: Channel) -> None:
        """The command let go of a stream, or nobody reads it any more: pass that on."""
        index = self._stdio.channels.index(channel)
        if channel.broken is not None:
            self._writer.event("note", text=f"{channel.stream}: {channel.broken}")
        if self._guardian is not None:
            self._guardian.close_channel(index)
        if self._stdio.terminal is not None and self._stdio.terminal.master == channel.source:
            if self._keyboard is not None:
                self._keyboard.close()
                self._keyboard = None
            self._stdio.terminal = None
        channel.close_source()
        channel.close()
        if channel.stream == "stdout" and self._options.owns_process:
            point_at_null(1)

    def _guardian_spoke(self) -> None:
        assert self._guardian is not None
        self._guardian.listen()
        if self._guardian.was_killed():
            self._loop.forget(self._guardian.fileno())
            self._miss("guardian", "it was killed; the recorder goes on alone")

    # -- the end ------------------------------------------------------------------------------

    def _conclude(self) -> Recording:
        root = self._tree.root
        assert root is not None and root.ending is not None
        self._sampling.close()
        self._let_rest_pass()
        if self._keyboard is not None:
            self._keyboard.close()
        if self._news is not None:
            self._news.close()
        self._tree.close()
        outcome = self._write_ending(root.ending)
        must_relay_on = bool(self._relay.open_channels)
        self._let_go(must_relay_on=must_relay_on)
        return Recording(
            self._writer.path,
            outcome,
            root.ending.exit_code,
            root.ending.signal_number,
            self._writer.missing,
            had_swallowed_death=self._swallowed_death is not None,
        )

    def _let_rest_pass(self) -> None:
        """What is still on its way; and let children that end with the root be seen to end."""
        grace = time.monotonic() + GRACE_SECONDS
        moved, moved_at = self._relay.bytes_total, time.monotonic()
        while True:
            is_idle = self._relay.is_idle()
            now = time.monotonic()
            if is_idle and (not self._tree.living or now >= grace):
                return
            if self._relay.bytes_total != moved:
                moved, moved_at = self._relay.bytes_total, now
            has_successor = self._guardian is not None and not self._guardian.is_lost
            if has_successor and now >= max(grace, moved_at + SLOW_READER_SECONDS):
                return
            self._loop.turn(0.005)

    def _write_ending(self, ending: Ending) -> Outcome:
        elapsed = self._writer.now()
        self._attempt(
            "crashes",
            lambda: conclusion.write_crashes(self._writer, self._writer.t0_ns, self._miss),
        )
        self._attempt("masking of agent files", self._writer.mask_agent_files)
        self._attempt("agent files", lambda: conclusion.remove_unused(self._writer.agent_dir))
        processes = self._tree.records()
        self._swallowed_death = conclusion.swallowed_death(processes[1:])
        after = self._sampling.finish_kernel(processes)
        if after is not None:
            self._writer.write_json("after.json", after)
        was_hung = self._stalling is not None and self._stalling.has_killed
        outcome = conclusion.outcome_of(
            ending, elapsed, processes, self._swallowed_death, was_hung=was_hung
        )
        # Of a command that ended well within a moment nobody will ask for its surroundings.
        self._sampling.finish_surroundings(is_wanted=outcome.kind != "ok")
        if self._stalling is not None:
            self._stalling.close(self._relay.bytes_total, self._sampling.cpu_seconds)
        self._writer.finish(outcome, elapsed)
        return outcome

    def _carry_on(self, root_pid: int, error: Exception) -> Recording:
        """The recorder has failed: the command goes on, and we end as it ends."""
        self._miss("recorder", f"{type(error).__name__}: {error}")
        root = self._tree.root
        ending = root.ending if root is not None else None
        if ending is None:
            if self._keyboard is not None:
                self._attempt("keyboard", self._keyboard.let_go)
            ending = carry_on(
                root_pid,
                self._stdio.channels,
                self._inbox,
                has_own_terminal=self._stdio.is_interactive,
            )
        known: Ending = ending
        elapsed = self._writer.now()
        outcome = self._attempt("ending", lambda: self._write_ending(known))
        self._let_go(must_relay_on=bool(self._relay.open_channels))
        return Recording(
            self._writer.path,
            outcome or conclusion.outcome_of(known, elapsed, [], None, was_hung=False),
            known.exit_code,
            known.signal_number,
            self._writer.missing,
        )

    def _let_go(self, *, must_relay_on: bool = False) -> None:
        """Leave this process as it was found."""
        self._attempt("relay", self._relay.stop)
        if self._guardian is not None:
            part = self._guardian.hand_over if must_relay_on else self._guardian.dismiss
            self._attempt("guardian", part)
        if self._canary is not None:
            self._attempt("canary", self._canary.dismiss)
        for channel in self._stdio.channels:
            self._attempt("output", channel.close)
        self._attempt("orphans", libc.stop_being_subreaper)
        self._attempt("loop", self._loop.close)
        self._attempt("signals", self._inbox.close)

    def _miss(self, what: str, why: str) -> None:
        with suppress(Exception):  # nobody is left to be told
            self._sampling.miss(what, why)

    def _attempt(self, what: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except CommandNotStarted:
            raise
        except Exception as error:
            self._miss(what, f"{type(error).__name__}: {error}")
            return None


def _not_recorded(error: BaseException) -> Outcome:
    return Outcome("unknown", f"the command was not recorded ({type(error).__name__}: {error})")


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed under us; the command may not mind
        return Path(os.environ.get("PWD", "/"))


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False
    except OSError:
        return True
