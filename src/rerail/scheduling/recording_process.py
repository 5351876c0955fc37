"""A process of its own that records one task: `own_process` starts it.

In: the task as JSON on standard input; nothing, and it ends. Out: the run in the task's store; exit
status 0 once it is on record, 3 with a sentence on standard error if the command could not be
started. The command itself gets no input, and its output goes to the record alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.platform import overlay
from rerail.recorder import CommandNotStarted, RunOptions, record
from rerail.scheduling.task import Task
from rerail.store import Store

NOT_STARTED = 3
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class TaskOptions(RunOptions):
    """Options whose record also says what the task was for."""

    extra: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {**RunOptions.settings(self), **self.extra}


def _pipes_named(task: Task) -> list[Path]:
    """The pipes and sockets that arguments or variables name: somebody is at their other end."""
    found = []
    for word in (*task.command[1:], *task.environ.values()):
        with suppress(OSError, ValueError):
            path = Path(task.cwd, word.partition("=")[2] or word)
            if path.is_fifo() or path.is_socket():
                found.append(path)
    return found


def _record() -> int:
    text = sys.stdin.read()
    if not text:
        return 0  # there was nothing more to record, or whoever would have said so is gone
    task = Task.from_text(text)
    _end_with_parent()
    null = os.open(os.devnull, os.O_RDWR)
    words = os.dup(2)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.set_inheritable(words, False)
    try:
        if task.shielded:
            through = Path(task.through or task.home)
            through.mkdir(parents=True, exist_ok=True)
            kept = [through, *_pipes_named(task)]
            overlay.enter([Path(each) for each in task.shielded], Path(task.layers), kept)
        os.chdir(task.cwd)
        if task.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, task.cores)
        record(task.command, Store(task.home), _options(task))
    except CommandNotStarted as error:
        os.write(words, error.message.encode("utf-8", "replace"))
        return NOT_STARTED
    except OSError as error:
        os.write(words, str(error).encode("utf-8", "replace"))
        return NOT_STARTED
    return 0


def _options(task: Task) -> TaskOptions:
    return TaskOptions(
        stall_seconds=task.stall_seconds,
        on_stall="kill",
        label=task.label,
        is_quiet=True,
        environ=dict(task.environ),
        extra={**task.settings, **({"cores": list(task.cores)} if task.cores else {})},
    )


def _end_with_parent() -> None:
    """If whoever started this is killed, the command is not to go on unseen."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (OSError, AttributeError):
        pass


def main() -> None:
    """Record, and end at once."""
    os._exit(_record())
