"""The step and the loss that a program printed last: for one line after a run, at little cost.

In: numbered lines, such as the end of a run's output. Out: step and loss, None where none is said.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.evidence.text.lines import to_lines
from rerail.evidence.text.progress import find_progress, last_loss


def last_progress(numbered: Iterable[tuple[int, str]]) -> tuple[int | None, float | None]:
    points = find_progress(list(to_lines(numbered)), ())
    step = next((p.step for p in reversed(points) if p.step is not None), None)
    return step, last_loss(points)
