"""The learning rate of a step: a line up, then half a cosine down."""

from __future__ import annotations

import math


def lr_at(step: int, total_steps: int, peak: float, warmup_steps: int, min_ratio: float) -> float:
    """A function of the step alone, so a resumed run needs no scheduler state."""
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return peak * (min_ratio + (1 - min_ratio) * cosine)
