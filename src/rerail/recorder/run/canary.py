"""Was a signal meant for us alone, or for our whole process group?

The command runs in the group that its user's shell made for it, together with the recorder. A
signal to the group has reached the command already, a signal to the recorder alone has not, and
the kernel does not say which of the two it was. So a third, sleeping process stands in the group
with every signal blocked: what is pending there was sent to the group.

Promises: it holds no descriptor but its link to us, and goes when the recorder goes, however that
ends.
"""

from __future__ import annotations

import os
import signal
import socket

from rerail.platform import libc, proc_files
from rerail.platform.descriptors import close_all_but

ANSWER_SECONDS = 0.25


class Canary:
    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link

    @classmethod
    def start(cls) -> Canary:
        """Before the command starts, so that it is younger than us: a signal reaches it first."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(theirs.fileno(), 0)
                close_all_but([0])
                _sleep()
            finally:
                os._exit(0)
        theirs.close()
        ours.settimeout(ANSWER_SECONDS)
        return cls(pid, ours)

    def fileno(self) -> int:
        return self._link.fileno()

    def has_heard(self, number: int) -> bool:
        """Whether the group got this signal; asking makes the canary forget it."""
        try:
            text = proc_files.read(self.pid, "status") or b""
            pending = int(text[text.index(b"ShdPnd:") + 7 :].split(None, 1)[0], 16)
        except (ValueError, IndexError):
            return False
        if not pending >> (number - 1) & 1:
            return False
        try:
            # Wait until it has: else the next signal would be taken for one to the group, too.
            self._link.send(bytes([number]))
            self._link.recv(1)
        except OSError:
            pass
        return True

    def dismiss(self) -> None:
        self._link.close()
        os.kill(self.pid, signal.SIGKILL)  # whoever was forked later may hold its link open
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


def _sleep() -> None:
    libc.set_process_name("rerail-canary")
    libc.die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while numbers := os.read(0, 64):
        for number in numbers:
            signal.sigtimedwait([number], 0)
        os.write(0, b".")
