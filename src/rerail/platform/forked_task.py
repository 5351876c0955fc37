"""Slow or risky work in a forked child with a deadline, so that it cannot delay or hurt the run.

In: a function that writes its result into the run folder itself. Out: a `ForkedTask` to be polled.
Promises: the child keeps none of our standard streams, is passed over by signals to our process
group, and is killed when its time is up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from rerail.platform import libc


class ForkedTask:
    def __init__(self, name: str, pid: int, seconds: float) -> None:
        self.name = name
        self.pid = pid
        self.deadline = time.monotonic() + seconds
        self.problem: str | None = None
        self._is_over = False

    @classmethod
    def start(
        cls, name: str, work: Callable[[], None], seconds: float, niceness: int = 0
    ) -> ForkedTask:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _keep_apart(niceness)
                work()
                status = 0
            except BaseException:
                if os.environ.get("RERAIL_DEBUG") == "1":
                    import traceback

                    traceback.print_exc()
            finally:
                os._exit(status)
        return cls(name, pid, seconds)

    @classmethod
    def start_with_answer(
        cls, name: str, work: Callable[[int], None], seconds: float
    ) -> tuple[ForkedTask, int]:
        """`work` gets a pipe to write into; its other end, for a read that does not wait, is ours.

        Nothing stays open where no child can be made (OSError).
        """
        read_end, write_end = os.pipe()
        try:
            task = cls.start(name, lambda: work(write_end), seconds)
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        return task, read_end

    def is_over(self) -> bool:
        """True once it has ended; kills it when its time is up. `problem` says what went wrong."""
        if self._is_over:
            return True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pid, 0
        if pid == self.pid:
            self._is_over = True
            if status and self.problem is None:
                self.problem = "it failed"
        elif time.monotonic() > self.deadline and self.problem is None:
            self.problem = "it took too long"
            self._kill()
        return self._is_over

    def wait(self, seconds: float) -> bool:
        """Give it this much longer; True if it is over."""
        until = time.monotonic() + seconds
        while not self.is_over():
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        return True

    def cancel(self) -> None:
        if not self.is_over():
            self.problem = self.problem or "the run was over first"
            self._kill()
            if self.wait(1.0):
                self._reap_its_programs(1.0)

    def _kill(self) -> None:
        """With the programs that it started, which are in its group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet, or it has just ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _reap_its_programs(self, seconds: float) -> None:
        """The recorder inherits orphans: what is not reaped stays a zombie of the caller's."""
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                pid, _ = os.waitpid(-self.pid, os.WNOHANG)
                if pid == 0:
                    time.sleep(0.005)
        except ChildProcessError:
            pass


def _keep_apart(niceness: int) -> None:
    libc.set_process_name("rerail-task")
    # Programs that it starts must not inherit our blocked signals; it is in a group of its own,
    # so that ^C at the terminal is not for it.
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    debugs = os.environ.get("RERAIL_DEBUG") == "1"
    for descriptor in (0, 1) if debugs else (0, 1, 2):
        os.dup2(null, descriptor)
    if niceness:
        os.nice(niceness)
