"""How long an answer may take, and what was left out when the time was over.

In: seconds. Out: `skips(what)`, asked before each piece of work: False while there is time, then
True, and what was skipped is kept to be told. Work that is under way is not broken off, so every
piece must be short by itself.
"""

from __future__ import annotations

import math
import time

MOST_SECONDS = 1e9  # thirty years: what is longer, timers of the system refuse


class Deadline:
    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self.left_out: list[str] = []
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())

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


def no_deadline() -> Deadline:
    return Deadline()
