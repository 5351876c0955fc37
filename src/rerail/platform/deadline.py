"""How long an answer may take, and what was left out when the time was over.

In: seconds. Out: `skips(what)`, asked before each piece of work: False while there is time, then
True, and what was skipped is kept to be told. Work that is under way is not broken off, so every
piece must be short by itself. Time in which this process was ready to run and had to wait for a
processor does not count, up to the same number of seconds again: a busy machine costs time, and
not the answer.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
MOST_SECONDS = 1e9  # thirty years: what is longer, timers of the system refuse


class Deadline:
    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self.left_out: list[str] = []
        self._end = time.monotonic() + seconds
        self._queued_before = _queued_seconds()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end and self.seconds_left <= 0.0

    @property
    def seconds_left(self) -> float:
        queued = min(self.seconds, _queued_seconds() - self._queued_before)
        return max(0.0, self._end + queued - time.monotonic())

    def skips(self, what: str) -> bool:
        """Whether the time is over; if so, `what` stands among what was left out, once."""
        if not self.is_over:
            return False
        if what not in self.left_out:
            self.left_out.append(what)
        return True

    @property
    def sentence(self) -> str:
        """What a person is told; empty if nothing was left out."""
        if not self.left_out:
            return ""
        return (
            f"This is what was known after {self.seconds:.0f} s; not looked at: "
            f"{', '.join(self.left_out)}."
        )


def _queued_seconds() -> float:
    """Return how long this thread has waited for a processor; 0 where the system does not count."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def no_deadline() -> Deadline:
    return Deadline()
