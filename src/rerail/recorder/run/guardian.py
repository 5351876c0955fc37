"""A second, small process that takes over if the recorder is killed.

In: forked copies of the relay's channels and the folder of the run. While the recorder lives it
sleeps in one `recv`. When the recorder's end of the socket closes without a goodbye, it goes on
carrying the output, puts the user's terminal back into order, says in the record what is missing
from then on, and writes the ending when the command has ended. It also takes over from a recorder
that is done while daemons of the command still hold its output.

Promises: it belongs to another session and ignores every signal that can be ignored, so that what
kills the recorder's process group does not kill it too.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import NamedTuple

from rerail.platform.descriptors import close_inherited, point_at_null
from rerail.platform.own_helper import stand_apart
from rerail.recorder.run.carrying_on import is_there
from rerail.recorder.run.channel import Channel, Keep
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.relay import Relay
from rerail.recorder.run.stdio import Stdio
from rerail.recorder.run.successor import Successor
from rerail.recorder.tree import endings
from rerail.recorder.tree.endings import Ending

ANSWER_SECONDS = 0.25


class GuardianInputs(NamedTuple):
    """What the guardian guards."""

    stdio: Stdio
    owns_process: bool  # started by the command line: inherited descriptors are nobody else's
    unneeded: list[int]  # descriptors of the recorder that would do harm if they stayed open
    successor: Successor  # what goes on with the record


class Guardian:
    """The recorder's end."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link
        self.is_lost = False

    @classmethod
    def start(cls, inputs: GuardianInputs) -> Guardian:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                _Guarding(inputs, theirs).run()
            finally:
                os._exit(0)
        theirs.close()
        ours.setblocking(False)
        return cls(pid, ours)

    def fileno(self) -> int:
        return self._link.fileno()

    def note_root(self, pid: int) -> None:
        self._ask(f"root {pid}")

    def close_channel(self, index: int) -> None:
        """Its copy of a pipe end must go too, or the command would never get its SIGPIPE."""
        self._ask(f"close {index}")

    def hand_over(self) -> None:
        """The run is recorded; what daemons still print is the guardian's from here."""
        self._ask("relay")
        self._link.close()

    def dismiss(self) -> None:
        self._ask("done")
        self._link.close()
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.was_killed() and time.monotonic() < deadline:
            time.sleep(0.001)
        if not self.is_lost:
            # A loaded machine: it has nothing left to do, and whoever we are next, or whoever
            # recorded from Python, must not find a child that it did not start.
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.is_lost = True

    def was_killed(self) -> bool:
        """To be asked when the link is readable although nothing was asked."""
        try:
            pid, _ = os.waitpid(self.pid, os.WNOHANG)
            self.is_lost = self.is_lost or pid == self.pid
        except ChildProcessError:
            self.is_lost = True
        return self.is_lost

    def listen(self) -> None:
        """Drop an answer that came too late: it must not be taken for the next one."""
        try:
            self._link.recv(1024)
        except OSError:
            pass

    def _ask(self, message: str) -> None:
        if self.is_lost:
            return
        self.listen()
        try:
            self._link.send(f"{message}\n".encode())
            poll = select.poll()
            poll.register(self._link, select.POLLIN)
            poll.poll(ANSWER_SECONDS * 1000)
            self._link.recv(16)
        except OSError:  # killed, or stopped by somebody: then it does not answer in time
            self.was_killed()


class _Guarding:
    """The guardian's own process."""

    def __init__(self, inputs: GuardianInputs, link: socket.socket) -> None:
        self._inputs = inputs
        self._link = link
        self._root_pid = 0
        self._root_pidfd = -1

    def run(self) -> None:
        self._settle_in()
        messages = self._link.makefile("r")
        while True:
            try:
                message = messages.readline()
            except ConnectionError:  # killed before it had read our last answer
                message = ""
            if not message:
                return self._take_over()
            word, _, argument = message.strip().partition(" ")
            if word == "root":
                self._note_root(int(argument))
            elif word == "close":
                self._drop(self._inputs.stdio.channels[int(argument)])
            try:
                self._link.send(b"ok")
            except ConnectionError:
                pass  # killed while it waited for this: the next line is the end
            if word == "done":
                return None
            if word == "relay":
                return self._relay_rest()

    def _settle_in(self) -> None:
        stand_apart("rerail-guardian")
        self._inputs.stdio.close_inner_ends()
        for descriptor in self._inputs.unneeded:
            os.close(descriptor)
        if self._inputs.owns_process:
            close_inherited()
        if self._inputs.stdio.outer is None:
            point_at_null(0)

    def _drop(self, channel: Channel) -> None:
        channel.close_source()
        channel.close()
        if channel.stream == "stdout":
            point_at_null(1)

    def _note_root(self, pid: int) -> None:
        self._root_pid = pid
        try:
            self._root_pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            self._root_pidfd = -1

    def _take_over(self) -> None:
        """The recorder is gone without a goodbye."""
        if self._inputs.stdio.outer is not None:
            self._inputs.stdio.outer.restore()
        for channel in self._inputs.stdio.channels:
            channel.pass_on_recorded()
        keep = self._adopt(has_ended=False)
        loop = Loop(lambda name, error: None)
        relay = Relay(loop, self._inputs.stdio.channels, keep, self._drop)
        relay.start()
        loop.every(0.2, "reader", relay.drop_broken)
        is_over = False

        def look() -> None:
            nonlocal is_over
            if is_over or not self._has_root_ended():
                return
            is_over = True
            loop.forget(self._root_pidfd)
            _let_pass(relay, 0.2)
            ending = self._how_root_ended(1.0)
            self._inputs.successor.close_run(self._root_pid, ending)

        if self._root_pidfd >= 0:
            loop.watch(self._root_pidfd, look)
        loop.every(1.0, "root", look)
        loop.every(1.0, "copies of black boxes", self._inputs.successor.look)
        while relay.open_channels or not is_over:
            loop.turn(1.0)

    def _relay_rest(self) -> None:
        """After the end of a run: what its daemons still print."""
        keep = self._adopt(has_ended=True)
        loop = Loop(lambda name, error: None)
        relay = Relay(loop, self._inputs.stdio.channels, keep, self._drop)
        relay.start()
        loop.every(0.2, "reader", relay.drop_broken)
        while relay.open_channels:
            loop.turn(1.0)

    def _adopt(self, *, has_ended: bool) -> Keep:
        try:
            return self._inputs.successor.adopt(has_ended=has_ended)
        except Exception:  # a record that cannot be written must not stop the output
            pass
        return lambda data, stream: None

    def _how_root_ended(self, seconds: float) -> Ending:
        """Whoever adopted the command reaps it within moments; only then does the pidfd tell."""
        deadline = time.monotonic() + seconds
        while True:
            ending = endings.from_pidfd(self._root_pidfd)
            if ending is not None:
                return ending
            if time.monotonic() > deadline:
                return endings.from_zombie(self._root_pid, 0) or Ending()
            time.sleep(0.01)

    def _has_root_ended(self) -> bool:
        if self._root_pid == 0:
            return True
        if self._root_pidfd >= 0:
            poll = select.poll()
            poll.register(self._root_pidfd, select.POLLIN)
            return bool(poll.poll(0))
        return not is_there(self._root_pid)


def _let_pass(relay: Relay, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not relay.is_idle() and time.monotonic() < deadline:
        time.sleep(0.005)
