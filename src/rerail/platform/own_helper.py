"""What every long-lived helper process of the recorder does first.

Promises: it belongs to another session and ignores every signal that can be ignored, so that what
ends the recorder's process group does not end it too; it keeps no working folder busy.
"""

from __future__ import annotations

import os
import signal

from rerail.platform import libc


def stand_apart(name: str) -> None:
    """Make this forked process independent of the recorder's group; `name` is what ps shows."""
    os.setsid()
    libc.set_process_name(name)
    for number in signal.valid_signals():
        # Ignored, SIGCHLD would let the kernel reap our errands, and their pids be another's.
        disposition = signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN
        try:
            signal.signal(number, disposition)
        except (OSError, ValueError):  # KILL and STOP
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")  # the run folder's path is absolute
