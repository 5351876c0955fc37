"""What a recording is asked for, and what comes of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.platform.this_terminal import this_terminal
from rerail.records import Outcome


@dataclass(frozen=True)
class RunOptions:
    """What `rerail run` can be asked for."""

    stall_seconds: float | None = None  # None: from the run's own pace
    on_stall: str = "report"  # report, kill, or a command
    use_agent: bool = True
    use_census: bool = True  # of what a process holds whose memory grows
    preload: bool | None = None  # None: where the interpreter would not load the agent otherwise
    is_quiet: bool = False
    label: str | None = None
    gates: tuple[str, ...] = ()  # what metrics have to be at a step or an epoch (gates.py)
    on_gate: str = "warn"  # warn, stop
    owns_process: bool = False  # the command line: descriptors and streams are nobody else's
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def settings(self) -> dict[str, Any]:
        """What is worth keeping in run.json."""
        return {
            "stall_seconds": self.stall_seconds,
            "on_stall": self.on_stall,
            "use_agent": self.use_agent,
            "use_census": self.use_census,
            "preload": self.preload,
            "label": self.label,
            "terminal": this_terminal(),
            **({"gates": list(self.gates), "on_gate": self.on_gate} if self.gates else {}),
        }


@dataclass(frozen=True)
class Recording:
    """A finished run."""

    folder: Path
    outcome: Outcome
    exit_code: int | None
    signal_number: int | None
    missing: list[tuple[str, str]]
    had_swallowed_death: bool = False  # a descendant died of a fault, and the command ended well

    @property
    def deserves_explanation(self) -> bool:
        return self.outcome.kind != "ok" or self.had_swallowed_death
