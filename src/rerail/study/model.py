"""What a study file says, as plain data: the command, its axes, and what counts as done.

No input or output and no logic here beyond names; `file` reads it, `cells` expands it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...]  # several words after one option

Keep = Literal["last", "all", "artifacts"]
Goal = Literal["max", "min"]
Take = Literal["last", "first", "max", "min"]


@dataclass(frozen=True)
class Axis:
    """One thing that is varied. `name` is an option (--lr), a VARIABLE, or a {placeholder}."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class ExplicitCell:
    """A configuration beside the grid, with its own parameters."""

    name: str
    parameters: dict[str, Value]
    line: int


@dataclass(frozen=True)
class Metric:
    """A number to read when a cell is done: from a file of its folder, or from its output."""

    name: str
    file: str = ""  # .json or .jsonl, relative to the cell's working folder
    key: str = ""  # dotted path within it
    output: str = ""  # regular expression; its first group is the number
    take: Take = "last"
    goal: Goal | None = None


@dataclass(frozen=True)
class Limits:
    cores: int | None = None  # per cell
    memory_bytes: int | None = None
    time_seconds: float | None = None  # of one attempt
    stall_seconds: float | None = None
    jobs: int = 1
    retries: dict[str, int] = field(default_factory=dict)  # by cause; "default" for the others


@dataclass(frozen=True)
class Resume:
    """How a cell that was cut short goes on: these words are added if the checkpoint is whole."""

    checkpoint: str  # glob in the working folder; the newest that is complete is taken
    arguments: tuple[str, ...] = ()  # {checkpoint} stands for its path; empty: it finds it itself


@dataclass(frozen=True)
class Study:
    path: Path  # of the file
    name: str
    folder: Path  # everything that the study writes
    results: Path  # where artifacts are collected, one folder per cell
    command: tuple[str, ...]
    axes: tuple[Axis, ...] = ()
    explicit: tuple[ExplicitCell, ...] = ()
    seeds: tuple[int, ...] = ()  # empty: one cell per configuration, without a seed in its name
    environment: dict[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()  # linked into every working folder
    artifacts: tuple[str, ...] = ()  # globs
    metrics: tuple[Metric, ...] = ()
    limits: Limits = field(default_factory=Limits)
    resume: Resume | None = None
    keep: Keep = "last"

    @property
    def base(self) -> Path:
        """The folder of the study file, which relative paths are meant from."""
        return self.path.parent


@dataclass(frozen=True)
class Cell:
    """One configuration with one seed: what a recorded run is made of."""

    name: str  # also the name of its folders
    parameters: dict[str, Value]
    seed: int
    command: tuple[str, ...]
    environment: dict[str, str]  # on top of what the study was started with
    key: str  # equal only if the same thing would be run and the same files be asked of it
