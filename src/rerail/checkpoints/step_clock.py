"""How many steps were done when a checkpoint was written? The black box of a run comes in.

A checkpoint has a time, and the black box has the times of the last few hundred steps: together
they say how many steps lie before it, whatever it is called and whatever is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.records import BlackBox


@dataclass(frozen=True)
class StepClock:
    """When each of the last few hundred steps was done."""

    steps: tuple[tuple[int, float], ...] = ()  # step and wall-clock time

    def step_at(self, unix: float) -> int | None:
        """How many steps were done then; None where the record does not reach back so far."""
        if not self.steps or unix < self.steps[0][1]:
            return None
        return max(step for step, done in self.steps if done <= unix)

    def time_of(self, step: int) -> float | None:
        """When this step was done; of one before the record's beginning, its first moment."""
        return next((done for each, done in self.steps if each >= step), None)


def read_clock(box: BlackBox | None, started_unix: float) -> StepClock:
    if box is None:
        return StepClock()
    return StepClock(tuple((p.step, started_unix + p.t_seconds) for p in box.history))
