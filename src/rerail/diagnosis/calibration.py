"""How often is an answer of this strength right?

In: the leading cause's raw share and its own evidence in nats. Out: a probability that means what
it says. The raw share treats the catalogue as complete and its weights as exact; neither is true,
so confidence is bounded by how much was seen: a message that says the cause by itself (6 nats) is
trusted more than a hint. The numbers come from labelled logs by `benchmarks/accuracy.py --fit`,
which prints the reliability table too, and are kept below the fit where the labelled logs, all of
which the catalogue knows, would make it surer than it should be of logs it has not seen.
"""

from __future__ import annotations

import math

SLOPE = 0.70
INTERCEPT = 0.10
EVIDENCE_SLOPE = 0.55
HIGHEST = 0.97


def calibrated(raw: float, own: float) -> float:
    raw = min(max(raw, 1e-6), 1 - 1e-6)
    logit = math.log(raw / (1 - raw))
    score = SLOPE * min(logit, 4.0) + INTERCEPT + EVIDENCE_SLOPE * (min(own, 9.0) - 4.0)
    return min(HIGHEST, 1 / (1 + math.exp(-score)))
