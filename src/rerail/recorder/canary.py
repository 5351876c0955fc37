"""Was a signal meant for us alone, or for our whole process group?

The command runs in the group that its user's shell made for it, together with the recorder. A
signal to the group has reached the command already, a signal to the recorder alone has not, and
the kernel does not say which of the two it was. So a third, sleeping process stands in the group
with every signal blocked: what is pending there was sent to the group.

Promises: it holds no descriptor but its pipe, and goes when the recorder goes, however that ends.
"""

from __future__ import annotations

import os
import signal

from rerail.recorder import glance, libc
from rerail.recorder.descriptors import close_all_above


class Canary:
    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    @classmethod
    def start(cls) -> Canary:
        """Before the command starts, so that it is younger than us: a signal reaches it first."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(reading, 0)
                close_all_above(0)
                _sleep()
            finally:
                os._exit(0)
        os.close(reading)
        return cls(pid, writing)

    def has_heard(self, number: int) -> bool:
        """Whether the group got this signal; asking makes the canary forget it."""
        try:
            text = glance.read(self.pid, "status") or b""
            pending = int(text[text.index(b"ShdPnd:") + 7 :].split(None, 1)[0], 16)
        except (ValueError, IndexError):
            return False
        if not pending >> (number - 1) & 1:
            return False
        try:
            os.write(self._pipe, bytes([number]))
        except OSError:
            pass
        return True

    def dismiss(self) -> None:
        os.close(self._pipe)
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
