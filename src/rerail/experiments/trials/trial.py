"""One trial: the record of a run with changes applied, and what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rerail.changes import Change
from rerail.experiments.trials.exposure import Distance, Unit
from rerail.records import BlackBox, ProcessRecord
from rerail.store import RunFolder, liveness

TrialOutcome = Literal[
    "crashed",  # of the failure under investigation; a hang counts, if that is the failure
    "finished",  # the command ended well
    "stopped",  # by rerail, once it had said enough
    "other",  # died of something else, or did nothing any more
    "lost",  # no usable record of it
]

APPLIED_NOTE = "change applied: "
_CLOCK_SECONDS = 0.05  # what is noticed of an ending later than it was


def changes_in_words(changes: Sequence[str]) -> str:
    return "with " + " and ".join(changes) if changes else "unchanged"


@dataclass(frozen=True)
class Trial:
    changes: tuple[str, ...]
    outcome: TrialOutcome
    distance: Distance
    cause: str | None = None
    run: str = ""
    reason: str = ""  # why it was run
    not_applied: tuple[str, ...] = ()  # changes that did not take effect
    summary: str = ""
    counts: bool = True
    raised: tuple[str, ...] = ()  # what made it, and all that it is compared with, fail sooner
    lasted_seconds: float | None = None  # on the clock: of a hang, the wait too
    checkpoint: str = ""  # where it began; exposure counts from there. Empty: at the beginning

    @property
    def says_something(self) -> bool:
        return self.counts and self.outcome != "lost"

    @property
    def took_effect(self) -> tuple[str, ...]:
        return tuple(change for change in self.changes if change not in self.not_applied)

    def exposure(self, unit: Unit) -> float:
        return self.distance.of(unit, died=self.outcome == "crashed")

    def in_words(self, far: str) -> str:
        """What came of it, `far` being how far it came in words."""
        of_what = f"died of another cause ({self.cause})" if self.cause else "ended otherwise"
        return {
            "crashed": f"failed after {far}",
            "finished": f"ended well after {far}",
            "stopped": f"clean for {far}, then stopped",
            "other": f"{of_what} after {far}",
            "lost": f"no record: {self.summary}",
        }[self.outcome]

    def contract(self, unit: Unit) -> dict[str, Any]:
        exposure = self.exposure(unit)
        return {
            "changes": list(self.changes),
            "outcome": self.outcome,
            "exposure": round(exposure, 3) if unit == "seconds" else int(exposure),
            "unit": unit,
            "seconds": round(self.lasted_seconds or self.distance.seconds, 2),
            "cause": self.cause,
            "run": self.run,
            **({"not_applied": list(self.not_applied)} if self.not_applied else {}),
            **({"raised": list(self.raised)} if self.raised else {}),
            **({"checkpoint": self.checkpoint} if self.checkpoint else {}),
        }

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "distance": vars(self.distance).copy()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Trial:
        fields = dict(document)
        fields["distance"] = Distance(**fields["distance"])
        for name in ("changes", "not_applied", "raised"):
            fields[name] = tuple(fields.get(name, ()))
        return cls(**fields)


@dataclass
class Verification:
    """Which changes of a trial left no trace of having taken effect."""

    boxes: list[BlackBox] = field(default_factory=list)
    processes: list[ProcessRecord] = field(default_factory=list)
    libraries: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, folder: RunFolder) -> Verification:
        libraries = {lib.path for found in folder.libraries().values() for lib in found}
        libraries |= {lib.path for crash in folder.crashes() for lib in crash.libraries}
        return cls(folder.boxes(), folder.processes(), libraries)

    def without_effect(self, changes: list[Change], variables: dict[str, str]) -> tuple[str, ...]:
        return tuple(c.text for c in changes if not self._took_effect(c, variables))

    def _took_effect(self, change: Change, variables: dict[str, str]) -> bool:
        if change.kind == "own" and change.own.needs_agent:
            noted = {note for box in self.boxes for note in box.notes}
            return APPLIED_NOTE + change.text in noted
        if change.kind == "own" and change.knob == "one-openmp-runtime" and self.libraries:
            # Preloaded may be a link; the memory map names the file that it leads to.
            preloaded = [p for p in variables.get("LD_PRELOAD", "").split(":") if p]
            return any({p, os.path.realpath(p)} & self.libraries for p in preloaded)
        if change.kind == "option" and self.processes and self.processes[0].role == "shell":
            return any(_has_words(p.command, change) for p in self.processes if p.role != "shell")
        return True


def _has_words(command: list[str], change: Change) -> bool:
    if any(word == f"{change.knob}={change.value}" for word in command):
        return True
    wanted = [change.knob, *change.values]
    return any(command[i : i + len(wanted)] == wanted for i in range(len(command)))


def died_before(folder: RunFolder, stopped_ns: int) -> bool:
    """Whether something of it had died by itself when it was told to stop."""
    info = folder.info()
    stopped = (stopped_ns - folder.t0_ns) / 1e9
    if info.recorder_scope != liveness.scope():  # another machine's clock
        stopped = time.time() - (time.monotonic_ns() - stopped_ns) / 1e9 - info.started_unix
    if any(
        crash.t_seconds is not None and crash.t_seconds < stopped and not crash.was_survived
        for crash in folder.crashes()
    ):
        return True
    return any(
        process.ended_t_seconds is not None
        and process.ended_t_seconds < stopped - _CLOCK_SECONDS
        and (process.signal is not None or process.exit_code)
        for process in folder.processes()
    )
