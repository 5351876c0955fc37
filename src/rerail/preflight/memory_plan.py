"""The memory plan of a command: what a dry run of a few steps says of the whole run.

In: a command, folder, variables. Out: a `MemoryPlan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.preflight.prediction import Prediction, predict
from rerail.preflight.rehearsal import Rehearsal, rehearse


@dataclass(frozen=True)
class MemoryPlan:
    rehearsal: Rehearsal
    prediction: Prediction

    @property
    def peak_bytes(self) -> int:
        return self.prediction.peak_bytes

    @property
    def peak_rss_bytes(self) -> int:
        return self.prediction.peak_rss_bytes

    def to_json(self) -> dict[str, Any]:
        return {
            "reports": [vars(r) for r in self.rehearsal.reports],
            "processes": [vars(p) for p in self.rehearsal.processes],
            "mappings": {k: [vars(m) for m in v] for k, v in self.rehearsal.mappings.items()},
            "ending": self.rehearsal.ending,
            "peak": self.peak_bytes,
        }


def plan_memory(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], *, steps: int = 3
) -> MemoryPlan:
    rehearsal = rehearse(command, cwd, environ, steps=steps)
    return MemoryPlan(rehearsal, predict(rehearsal))
