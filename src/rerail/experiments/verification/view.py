"""How a run of a verification stands: what it asks, how far it is, what is believed now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.experiments.trials.exposure import Unit
from rerail.experiments.trials.live_view import bar, how_far, wrapped
from rerail.wording import percent, seconds_in_words


@dataclass(frozen=True)
class RunNow:
    """The run under way, for a view."""

    lines: Sequence[str]

    def line(self) -> str:
        return "; ".join(line.strip() for line in self.lines)

    def block(self, width: int) -> list[str]:
        return wrapped([*self.lines, "Ctrl-C keeps everything."], width)


def run_lines(
    question: str, exposure: float, ends: float | None, unit: Unit, pace: float | None
) -> list[str]:
    """What a run asks, and how far it is."""
    known = ends if ends is not None and math.isfinite(ends) and ends > 0.0 else None
    drawn = f"{bar(min(1.0, exposure / known))} " if known else ""
    left = ""
    if known and pace and exposure < known:
        left = f", about {seconds_in_words((known - exposure) / pace)} left"
    return [question, f"  {drawn}{how_far(exposure, known, unit)}{left}"]


def proof_lines(luck: float, confidence: float, used: float, budget: float) -> list[str]:
    """What the outcomes would mean, and what is believed now."""
    asked = percent(confidence, 1)
    return [
        f"  A crash refutes the fix. Clean to the end: proven to {asked}.",
        f"  By luck so far: {bar(luck)} {percent(luck, 1)}"
        f" (proven at {percent(1.0 - confidence, 1)})",
        f"{seconds_in_words(used)} of at most {seconds_in_words(budget)} used",
    ]
