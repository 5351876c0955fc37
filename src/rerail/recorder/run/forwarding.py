"""Signals on their way to the command, and stopping and going on together with it.

In: what the signal inbox received and which keys made signals. Out: the command gets each signal
once, as it would have without us, and the record says who sent it. With a terminal of its own the
command lives in another session, and signals reach it through us; else it is in our own process
group and has what the terminal or a group-wide kill sent already.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from rerail.platform import proc_files
from rerail.platform.signal_names import signal_name
from rerail.recorder.run.companions import Companions
from rerail.recorder.run.signals import TERMINAL_SIGNALS, Received, process_name
from rerail.recorder.run.stdio import Stdio
from rerail.recorder.run.streams import Streams
from rerail.recorder.run.terminal import ignores, stops_on
from rerail.recorder.tree.processes import Tree
from rerail.store import RunWriter

_STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


@dataclass
class Forwarding:
    tree: Tree
    writer: RunWriter
    streams: Streams
    companions: Companions
    _is_suspending: bool = False

    @property
    def stdio(self) -> Stdio:
        return self.streams.stdio

    @property
    def root_pid(self) -> int:
        assert self.tree.root is not None
        return self.tree.root.pid

    def handle(self, received: Received) -> None:
        """Any signal but SIGCHLD, which is about our own children."""
        number = received.number
        canary = self.companions.canary
        was_for_group = canary is not None and canary.has_heard(number)
        if was_for_group and _group_of(self.root_pid) != os.getpgid(0):
            was_for_group = self.stdio.is_interactive  # our group, which is not the command's
        if received.sender_pid == os.getpid():
            pass  # our own: stopping the rest of our job
        elif number == signal.SIGWINCH:
            self._resize(received)
        elif number == signal.SIGCONT:
            self._go_on(was_for_group)
        elif received.is_from_kernel:
            if number in TERMINAL_SIGNALS:
                self._from_terminal(number)
        else:
            self._from_process(received, was_for_group)

    def key_pressed(self, number: int) -> None:
        """The inner terminal has made this signal of a key."""
        if number == signal.SIGTSTP:
            self._suspend()
        else:
            self._note(number, None, "terminal")

    def interrupt(self, why: str) -> None:
        """As Ctrl-C would: everybody in the command's own group. Who ignores that, as what a shell
        starts in the background does, is told to terminate."""
        number = signal.SIGTERM if ignores(self.root_pid, signal.SIGINT) else signal.SIGINT
        self._note(number, os.getpid(), f"rerail, for the gate {why}")
        group = _group_of(self.root_pid)
        for pid, process in list(self.tree.living.items()):
            if _group_of(pid) == group:
                process.send(number)

    def _from_terminal(self, number: int) -> None:
        if not self.stdio.is_interactive:
            if number != signal.SIGTSTP:
                self._note(number, None, "terminal")  # the kernel told the whole group
        elif number == signal.SIGHUP:
            self._note(number, None, "terminal")
            self.streams.relay.drop_broken()  # our end goes, and the kernel hangs up on the command
        elif number != signal.SIGTSTP:
            self._note(number, None, "terminal")
            self._send_to_group(number)

    def _from_process(self, received: Received, was_for_group: bool) -> None:
        number, sender = received.number, received.sender_pid
        self._note(number, sender, process_name(sender))
        if sender in self.tree.living:
            return  # `kill 0` in a script: it was meant for the command's own processes
        if self.stdio.is_interactive:
            if number == signal.SIGTSTP:
                self._suspend()
            elif was_for_group:
                self._send_to_group(number)
            else:
                self._send(number)
        elif not was_for_group:
            self._send(number)

    def _resize(self, received: Received) -> None:
        if self.stdio.terminal is not None:
            self.stdio.terminal.copy_size(0 if self.stdio.is_interactive else self._terminal())
        if not self.stdio.is_interactive and (self.stdio.terminal or not received.is_from_kernel):
            self._send(signal.SIGWINCH)

    def _terminal(self) -> int:
        return self.stdio.streams.is_terminal.index(True, 1)

    # -- stopping and going on ----------------------------------------------------------------

    def root_stopped(self, number: int) -> None:
        """The command has stopped: its job, which is us, stops too, or the shell would wait."""
        if not (self._is_suspending or number in _STOPS) or not can_be_continued():
            return
        if signal.SIGCONT in signal.sigpending():
            return  # somebody was quicker than we: stopping now would throw their SIGCONT away
        self._is_suspending = False
        keyboard = self.streams.keyboard
        if keyboard is not None:
            keyboard.let_go()
            os.killpg(0, signal.SIGTSTP)  # the rest of a pipeline; for us it is blocked
        os.kill(os.getpid(), signal.SIGSTOP)
        # Somebody said `fg` or `bg`.
        if keyboard is not None:
            keyboard.attend()

    def _suspend(self) -> None:
        """Stop the command as ^Z would. In a session of its own the kernel declines to (the group
        counts as orphaned), so those who leave SIGTSTP to its default are stopped by us."""
        terminal = self.stdio.terminal
        group = terminal.foreground_group() if terminal is not None else None
        if group is None or group != _group_of(self.root_pid) or not can_be_continued():
            return
        members = [pid for pid in self.tree.living if _group_of(pid) == group]
        stopping = [pid for pid in members if stops_on(pid, signal.SIGTSTP)]
        self._is_suspending = self.root_pid in stopping
        for pid in stopping:
            self._send(signal.SIGSTOP, pid)

    def _go_on(self, was_for_group: bool) -> None:
        if self.stdio.is_interactive:
            self._send_to_group(signal.SIGCONT)
            keyboard = self.streams.keyboard
            if keyboard is not None:
                keyboard.attend()
        elif not was_for_group:
            self._send(signal.SIGCONT)

    # -- sending ------------------------------------------------------------------------------

    def _send(self, number: int, pid: int | None = None) -> None:
        process = self.tree.living.get(pid or self.root_pid)
        if process is not None:
            process.send(number)

    def _send_to_group(self, number: int) -> None:
        if self.root_pid in self.tree.living:
            try:
                os.killpg(self.root_pid, number)  # the root leads its group in its own session
            except OSError:
                self._send(number)

    def _note(self, number: int, sender: int | None, name: str | None) -> None:
        self.writer.event(
            "signal-forwarded", signal=signal_name(number), sender_pid=sender, sender_name=name
        )


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def can_be_continued() -> bool:
    """Whether a shell watches our job: nobody would ever continue an orphaned group, or one
    without a terminal, and a stopped recorder would hold the command's output up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    group, session = os.getpgrp(), os.getsid(0)
    pid = os.getppid()
    for _ in range(64):
        try:
            if pid <= 1 or os.getsid(pid) != session:
                return False
            if os.getpgid(pid) != group:
                return True
        except OSError:
            return False
        stat = proc_files.read_stat(pid)
        if stat is None:
            return False
        pid = stat.parent_pid
    return False
