"""One look at a trial under way, as `isolate`, `verify` and the reproducer take it while they poll.

In: the running task, when it was started, and what is left of the budget. Out: a `Look`: whether
the trial is over, has to be stopped, or how far it came. Nothing is stopped here but by `stop`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rerail.errors import RerailError
from rerail.experiments.trials.exposure import Distance, elapsed_seconds
from rerail.scheduling import RunningTask
from rerail.store import RunFolder

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Look:
    state: Literal["starting", "under way", "over", "budget", "overfull"]
    folder: RunFolder | None = None
    distance: Distance | None = None  # of one that is under way
    why: str = ""  # what it wrote, if that is too much


def look_at(
    running: RunningTask,
    started: float,
    seconds_left: float,
    overfull: Callable[[], str],
    how_far: Callable[[RunFolder, float], Distance],
) -> Look:
    """`started` is on the monotonic clock; `overfull` says what a trial wrote if it is too much."""
    if running.is_over():
        return Look("over")
    if seconds_left <= 0.0:
        return Look("budget")
    path = running.folder()
    if path is None:
        return Look("starting")
    if why := overfull():
        return Look("overfull", why=why)
    folder = RunFolder(path)
    try:
        return Look("under way", folder, how_far(folder, elapsed_seconds(folder, started)))
    except RerailError:
        return Look("starting")  # its record is just being made


def stop(running: RunningTask) -> int:
    """End a trial; the answer says when, for whether it had died before."""
    stopped_ns = time.monotonic_ns()
    running.stop()
    return stopped_ns
