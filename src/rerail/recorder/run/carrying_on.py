"""What is left to do when the recorder itself has failed while the command runs.

In: the command's pid, its channels and the signals that we hold back. Out: how the command ended.
Promises: its output still goes where it belongs, signals still reach it, and its ending is known;
no descriptor, thread or process is asked for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from rerail.recorder.run.channel import Channel
from rerail.recorder.run.signals import SignalInbox
from rerail.recorder.tree.endings import Ending, wait_for

PAUSE_SECONDS = 0.005


def carry_on(
    root_pid: int, channels: Sequence[Channel], inbox: SignalInbox, *, has_own_terminal: bool
) -> Ending:
    """Until the command has ended and what it printed has been passed on."""
    ending: Ending | None = None
    while True:
        ending = ending or wait_for(root_pid)
        if ending is None and not is_there(root_pid):
            ending = Ending()  # nobody knows how
        has_rest = sum(_pass_on(channel) for channel in channels) > 0  # every one of them
        if ending is not None and not has_rest:
            return ending
        # With a terminal of its own the command is in another session: the kernel told us alone.
        for received in inbox.read():
            if received.number != signal.SIGCHLD and (
                has_own_terminal or not received.is_from_kernel
            ):
                _send(root_pid, received.number)
        time.sleep(PAUSE_SECONDS)


def _pass_on(channel: Channel) -> bool:
    """One chunk, into no record; whether there may be more."""
    if channel.is_closed:
        return False
    try:
        state = channel.pump(lambda data, stream: None)
    except Exception:
        return False  # out of memory, perhaps: the next turn tries again
    if state == "closed":
        channel.close_source()  # who writes on gets SIGPIPE
    return state == "waiting" or (state == "open" and channel.has_just_read)


def is_there(pid: int) -> bool:
    """Whether a process has this pid, be it a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass
