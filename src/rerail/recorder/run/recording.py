"""What a recording is asked for, and what comes of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rerail.platform.this_terminal import this_terminal
from rerail.records import Outcome


class Notifies(Protocol):
    """Who tells people while nobody looks; each in a process of its own."""

    @property
    def shown(self) -> list[str]:
        """Who is told, without what is secret about their addresses."""

    @property
    def secrets(self) -> list[str]:
        """What the record must not hold: their addresses."""

    @property
    def pids(self) -> list[int]:
        """Processes that may still be sending: not of the run."""

    def stalled(
        self, folder: Path, silent_seconds: float, hung_in: str, *, ends_it: bool
    ) -> int | None:
        """The pid of the process that sends it."""

    def rank_holds_up(self, folder: Path, text: str) -> int | None:
        """Of a rank that the others wait for; the pid of the process that sends it."""

    def run_ended_unseen(self, folder: Path, summary: str, *, is_death: bool) -> None:
        """The recorder is gone, and with it whoever would have told."""


class Shares(Protocol):
    """Who shows this run to the other nodes of its job, in a process of its own."""

    @property
    def shown(self) -> str:
        """Where, without what is secret about it."""

    def begin(self, folder: Path) -> list[int]:
        """The pids of its processes, which are not of the run."""

    def agree(self, attempt: int, names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
        """Which of these checkpoints all nodes go on from, and what there is to say about it."""


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
    has_own_group: bool = False  # the command gets a process group without the recorder in it
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    notifier: Notifies | None = None
    metrics_file: Path | None = None  # absolute
    sharing: Shares | None = None  # of a run on one of several machines

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
            **({"is_quiet": True} if self.is_quiet else {}),
            **({"gates": list(self.gates), "on_gate": self.on_gate} if self.gates else {}),
            **({"notify": self.notifier.shown} if self.notifier is not None else {}),
            **({"job": self.sharing.shown} if self.sharing is not None else {}),
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
    store_answers: bool = True  # False: its disk hangs, and whoever reads the folder would wait

    @property
    def deserves_explanation(self) -> bool:
        return self.outcome.kind != "ok" or self.had_swallowed_death
