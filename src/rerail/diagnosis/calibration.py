"""How often is an answer of this strength right?

In: the leading cause's raw share and its own evidence in nats. Out: a probability that means what
it says. The raw share treats the catalogue as complete and its weights as exact; neither is true,
so confidence is bounded by how much was seen: a message that says the cause by itself (6 nats) is
trusted more than a hint. The two numbers below were fitted on labelled logs by
`benchmarks/accuracy.py`, which prints the reliability table and refits them.
"""

from __future__ import annotations

import math

SLOPE = 0.55
INTERCEPT = 0.35
EVIDENCE_SLOPE = 0.22
HIGHEST = 0.98


def calibrated(raw: float, own: float) -> float:
    raw = min(max(raw, 1e-6), 1 - 1e-6)
    logit = math.log(raw / (1 - raw))
    score = SLOPE * min(logit, 4.0) + INTERCEPT + EVIDENCE_SLOPE * (min(own, 9.0) - 4.0)
    return min(HIGHEST, 1 / (1 + math.exp(-score)))
