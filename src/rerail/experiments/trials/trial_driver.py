"""Starts, watches and stops the trials of an experiment: the one place that polls them.

In: trials that are ready, and when each has said enough. Out: the same trials once they are over,
each with why it was stopped. Promises: at the end of the budget, after Ctrl-C and when a trial has
written more than it may, it is stopped and given back, so that it counts for what it showed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from rerail.errors import RerailError
from rerail.experiments.trials.exposure import Distance, elapsed_seconds
from rerail.experiments.trials.trial_setup import ReadyTrial
from rerail.scheduling import RunningTask, Scheduler, Task
from rerail.store import RunFolder

_POLL_SECONDS = 0.1

Stopped = Literal["", "enough", "budget", "interrupted", "overfull"]
HowFar = Callable[[RunFolder, float], Distance]


@dataclass
class UnderWay:
    """A trial from its start until it was judged and left."""

    ready: ReadyTrial
    name: str = "a run"  # how it is called in sentences
    running: RunningTask = field(init=False)
    started: float = field(init=False)  # on the monotonic clock
    stopped: Stopped = ""  # by rerail, and why; empty: it ended by itself
    stopped_ns: int | None = None  # when, for it may have died before
    overfull: str = ""  # what it wrote, if that is more than it may

    def folder(self) -> RunFolder | None:
        path = self.running.folder()
        return None if path is None else RunFolder(path)

    def leave(self) -> None:
        """Give back what was made for it; once it was judged."""
        folder = self.folder()
        self.ready.leave(folder.id if folder is not None else "")


T = TypeVar("T", bound=UnderWay)


class TrialDriver(Generic[T]):
    """`seconds_left` is of the budget; `say` is told of trials that write too much."""

    def __init__(
        self, scheduler: Scheduler, seconds_left: Callable[[], float], say: Callable[[str], None]
    ) -> None:
        self.scheduler = scheduler
        self.under_way: list[T] = []
        self.overfull = 0  # trials that wrote more than they may
        self._seconds_left = seconds_left
        self._say = say

    def start(self, each: T, task: Task) -> None:
        """Start a trial; what was made for it is given back if it cannot be started."""
        try:
            each.running, each.started = self.scheduler.start(task), time.monotonic()
        except BaseException:
            each.ready.leave()
            raise
        self.under_way.append(each)

    def run(
        self, each: T, task: Task, how_far: HowFar, is_enough: Callable[[T, Distance], bool]
    ) -> T:
        """Drive one trial until it is over, and is to be judged and left. Ctrl-C stops it, and it
        says so.
        """
        self.start(each, task)
        try:
            while self.under_way:
                for _ in self.ended(how_far, is_enough):
                    pass
        except KeyboardInterrupt:
            self.stop(each, "interrupted")
        except BaseException:
            self.stop(each, "interrupted")
            each.leave()
            raise
        return each

    def ended(self, how_far: HowFar, is_enough: Callable[[T, Distance], bool]) -> Iterator[T]:
        """Wait a moment, look at each trial, and yield those that are over, stopped or not."""
        time.sleep(_POLL_SECONDS)
        for each in list(self.under_way):
            if each in self.under_way and self._is_over(each, how_far, is_enough):
                yield each

    def stop(self, each: T, why: Stopped) -> None:
        """End a trial; whether it had died before is for the judge to say."""
        each.stopped, each.stopped_ns = why, time.monotonic_ns()
        each.running.stop()
        if each in self.under_way:
            self.under_way.remove(each)

    def stop_all(self) -> Iterator[T]:
        """After Ctrl-C: stop what runs, and yield it."""
        for each in list(self.under_way):
            try:
                self.stop(each, "interrupted")
            except (RerailError, OSError):
                continue
            yield each

    def _is_over(self, each: T, how_far: HowFar, is_enough: Callable[[T, Distance], bool]) -> bool:
        if each.running.is_over():
            self.under_way.remove(each)
            if why := each.ready.overfull(now=True):  # perhaps it died of a full disk
                self._wrote_too_much(each, f"does not count: {why}")
            return True
        if self._seconds_left() <= 0.0:
            self.stop(each, "budget")
        elif (folder := each.folder()) is None:
            return False
        elif why := each.ready.overfull():
            self._wrote_too_much(each, f"is ended: {why}")
            self.stop(each, "overfull")
        elif _has_said_enough(each, folder, how_far, is_enough):
            self.stop(each, "enough")
        return each.stopped != ""

    def _wrote_too_much(self, each: T, why: str) -> None:
        self.overfull += 1
        each.overfull = why
        self._say(f"{each.name} {why}")


def _has_said_enough(
    each: T, folder: RunFolder, how_far: HowFar, is_enough: Callable[[T, Distance], bool]
) -> bool:
    try:
        distance = how_far(folder, elapsed_seconds(folder, each.started))
    except RerailError:
        return False  # its record is just being made
    return is_enough(each, distance)
