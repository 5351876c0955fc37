"""How often is an answer of this strength right?

In: the leading cause's raw share, its own evidence in nats, and what kind of evidence that is. Out:
a probability that means what it says. The raw share treats the catalogue as complete and its
weights as exact; neither is true, so confidence is bounded by how much was seen: a message that
says the cause by itself (6 nats) is trusted more than a hint. The numbers come from first answers,
given to logs before anything was fitted to them, by `benchmarks/calibration.py`.
"""

from __future__ import annotations

import math
from typing import Literal

Standing = Literal["definite", "one-message", "beside"]

SLOPE = 0.70
INTERCEPT = -0.10
EVIDENCE_SLOPE = 0.40
LACK = 0.5  # of what is missing to 4 nats: weak evidence is right more often than it sounds
# 0.85 and more promises that at most one answer in fifty is wrong. A single message whose words are
# used of other things too does not keep that promise, nor does a line beside what ended the run.
HIGHEST: dict[Standing, float] = {"definite": 0.97, "one-message": 0.84, "beside": 0.77}


def calibrated(raw: float, own: float, standing: Standing = "definite") -> float:
    raw = min(max(raw, 1e-6), 1 - 1e-6)
    score = score_of(math.log(raw / (1 - raw)), own, (SLOPE, INTERCEPT, EVIDENCE_SLOPE))
    return min(HIGHEST[standing], 1 / (1 + math.exp(-score)))


def score_of(logit: float, own: float, numbers: tuple[float, float, float]) -> float:
    """In log-odds; `numbers` are slope, intercept and evidence slope."""
    slope, intercept, evidence_slope = numbers
    evidence = min(own, 7.0) - 4.0
    return slope * min(logit, 4.0) + intercept + evidence_slope * max(evidence, LACK * evidence)
