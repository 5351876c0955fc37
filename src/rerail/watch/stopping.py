"""Stopping a run from outside, as a person would: a signal to its recorder.

In: a run folder. Out: the signal is sent, or a sentence that says why not. `rerail run` passes each
signal on to its command and writes down who sent it; nothing here touches the command itself.
Promises: only the very process that records this run gets a signal, never one that has its pid now.
"""

from __future__ import annotations

import os
import signal

from rerail.store import RunFolder, liveness

# What a person tries first, and what they try when that does not help (a program that ignores
# Ctrl-C, or that a shell started in the background, where interrupts are ignored).
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def send_to_recorder(folder: RunFolder, number: signal.Signals) -> str | None:
    """None if it was sent, else why not."""
    info = folder.info()
    if info.state != "running":
        return "it is over"
    if info.recorder_scope != liveness.scope():
        return "it is recorded on another machine or in another container: stop it there"
    descriptor = -1
    try:
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(info.recorder_pid)
        # Looked at while the descriptor holds the pid: it cannot become another process's now.
        if not liveness.has_process(info.recorder_pid, info.recorder_start_ticks):
            return "its recorder is gone"
        if descriptor >= 0:
            signal.pidfd_send_signal(descriptor, number)
        else:
            os.kill(info.recorder_pid, number)
    except ProcessLookupError:
        return "its recorder is gone"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return None
