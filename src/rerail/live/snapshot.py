"""What a run folder held at one moment: what is read of it, before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rerail.records import BlackBox, Event, PrintedPoint, ProcessRecord, RunInfo, VitalsRow

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis


@dataclass(frozen=True)
class Snapshot:
    info: RunInfo
    now_seconds: float  # since the start of the run; for a run that is over, its end
    processes: Sequence[ProcessRecord] = ()
    boxes: Sequence[BlackBox] = ()
    vitals: Sequence[VitalsRow] = ()  # thinned, the last stretch
    recent: Sequence[VitalsRow] = ()  # 10 Hz
    printed: Sequence[bytes] = ()
    printed_progress: Sequence[PrintedPoint] = ()  # what the recorder read in the output
    events: Sequence[Event] = ()  # of the kinds in `follower.WANTED`
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None  # the one on record
    # Of a run that goes on: since when nothing was printed and no process told of progress.
    silent_seconds: float | None = None
    # What boded ill at the start, where it was found out before: it does not change.
    warnings: list[str] | None = None
