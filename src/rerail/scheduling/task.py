"""What a scheduler is asked to run, and what it promises of it.

A `Task` is one command to be recorded, complete: folder, environment, store. Nothing of it is
taken from the process that asks, so that it can run in another process or on another machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rerail.errors import RerailError


class NotEnoughMemory(RerailError):
    """So many runs at once do not fit into the machine; `fits` says how many do."""

    def __init__(self, message: str, fits: int) -> None:
        super().__init__(message, f"At most {fits} fit: --jobs {fits}")
        self.fits = fits


@dataclass(frozen=True)
class Task:
    command: tuple[str, ...]
    cwd: str
    home: str  # of the store that gets the run
    environ: dict[str, str]
    label: str  # unique in the store: the run is found by it
    stall_seconds: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # kept in run.json
    cores: tuple[int, ...] = ()  # the processors that it may use; empty: all
    shielded: tuple[str, ...] = ()  # folders that nothing it writes may reach
    layers: str = ""  # the folder that gets what it writes to them
    through: str = ""  # a folder in them that it really writes to; empty: the store

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Task:
        fields = json.loads(text)
        fields["command"] = tuple(fields["command"])
        fields["cores"] = tuple(fields["cores"])
        fields["shielded"] = tuple(fields["shielded"])
        return cls(**fields)


class RunningTask(Protocol):
    """A task under way."""

    task: Task

    def is_over(self) -> bool:
        """Whether the run has ended and its record is complete."""

    def folder(self) -> Path | None:
        """The run folder; None until the recorder has made it."""

    def stop(self) -> None:
        """End the command and everything it started; returns when all of it is gone."""

    def problem(self) -> str | None:
        """Why there is no usable record, once it is over."""


class Scheduler(Protocol):
    jobs: int  # how many tasks may run at once

    def start(self, task: Task) -> RunningTask: ...

    def admit(self, peak_bytes: int) -> None:
        """Raise NotEnoughMemory if `jobs` tasks of this peak do not fit, counting what runs."""

    def close(self) -> None:
        """Stop what still runs and let go of everything."""
