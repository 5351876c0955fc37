"""What one recorded run holds, read once, for the readers of this room.

In: a `RunFolder`. Out: `RecordedRun`, plain records with the few look-ups that every reader needs.
A part that the folder lacks is empty. Nothing here judges: that is for the readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from rerail.errors import UnreadableInput
from rerail.records import (
    AfterDeath,
    BlackBox,
    Census,
    Crash,
    Event,
    MappedLibrary,
    PrintedPoint,
    ProcessRecord,
    RunInfo,
    Stall,
    StepRow,
    VitalsRow,
)
from rerail.store import RunFolder, training_of, with_boxes

T = TypeVar("T")


@dataclass(frozen=True)
class RecordedRun:
    """One run's records. `vitals` is in order of time: the thinned past, then the last minute."""

    info: RunInfo
    events: list[Event] = field(default_factory=list)
    processes: list[ProcessRecord] = field(default_factory=list)
    boxes: list[BlackBox] = field(default_factory=list)
    printed: PrintedPoint | None = None  # the last progress that the recorder read in the output
    steps: list[StepRow] = field(default_factory=list)  # of the whole run, thinned
    crashes: list[Crash] = field(default_factory=list)
    vitals: list[VitalsRow] = field(default_factory=list)
    libraries: dict[str, list[MappedLibrary]] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    censuses: list[list[Census]] = field(default_factory=list)  # a list per process
    after: AfterDeath = field(default_factory=AfterDeath)
    surroundings: dict[str, Any] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)  # what, why

    @cached_property
    def by_key(self) -> dict[str, ProcessRecord]:
        return {process.key: process for process in self.processes}

    @cached_property
    def main(self) -> ProcessRecord | None:
        """The process that the command became: its end is the run's end."""
        root = [p for p in self.processes if p.pid == self.info.root_pid]
        if root:
            return min(root, key=lambda p: p.started_t_seconds)
        return next((p for p in self.processes if p.role == "main"), None)

    @cached_property
    def _boxes_by_key(self) -> dict[str, BlackBox]:
        return {f"{box.pid}-{box.start_ticks}": box for box in self.boxes}

    def box_of(self, process: ProcessRecord) -> BlackBox | None:
        return self._boxes_by_key.get(process.key)

    def process_of(self, record: BlackBox | Crash) -> ProcessRecord | None:
        return self.by_key.get(f"{record.pid}-{record.start_ticks}")

    def rank_of(self, process: ProcessRecord) -> int | None:
        """As the process itself told, else as its launcher did."""
        box = self.box_of(process)
        return process.rank if box is None or box.rank is None else box.rank

    def role_of(self, record: BlackBox | Crash) -> str:
        process = self.process_of(record)
        return process.role if process is not None else "child"

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the files and mounts that the record names can be looked at here."""
        return self.info.host == os.uname().nodename

    @property
    def was_stopped_for_a_stall(self) -> bool:
        """Ended by rerail itself, which sends SIGTERM and then SIGKILL."""
        return self.info.outcome is not None and self.info.outcome.kind == "hang"

    def was_ended_by_rerail(self, process: ProcessRecord) -> bool:
        """Of a run that it ended for a stall: not what had died before, and may be why it hung."""
        if not self.was_stopped_for_a_stall:
            return False
        stopped = [stall.t_seconds for stall in self.stalls if stall.action == "kill"]
        ended = process.ended_t_seconds
        return not stopped or ended is None or ended >= stopped[-1]

    def was_training(self, process: ProcessRecord) -> bool:
        """Whether the process itself did optimiser steps or backward passes."""
        box = self.box_of(process)
        return box is not None and (box.optimizer_steps > 0 or box.backward_calls > 0)

    @cached_property
    def training_box(self) -> BlackBox | None:
        return training_of(self.boxes, self.processes)[0]

    @property
    def end_t_seconds(self) -> float:
        ends = [self.info.elapsed_seconds or 0.0]
        ends += [self.vitals[-1].t_seconds] if self.vitals else []
        ends += [self.events[-1].t_seconds] if self.events else []
        return max(ends)

    def events_of(self, *kinds: str) -> Iterable[Event]:
        return (event for event in self.events if event.kind in kinds)


def read_material(folder: RunFolder, is_past: bool = False) -> RecordedRun:
    """All parts of a run; of a past one only those that tell how far it came and how it ended.

    run.json and the events are the run: what is wrong with them is the caller's to know. Any other
    part that cannot be read is left empty and named in `missing`.
    """
    info = folder.info()
    events = list(folder.events())
    missing = [
        (str(event.data.get("what", "")), str(event.data.get("why", "")))
        for event in events
        if event.kind == "missing"
    ] + folder.left_out()

    def part(name: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except UnreadableInput as error:
            missing.append((name, error.message))
            return otherwise

    no_boxes: list[BlackBox] = []
    boxes = part("black boxes", folder.boxes, no_boxes)
    run = RecordedRun(
        info=info,
        events=events,
        processes=with_boxes(folder.processes(), boxes),
        boxes=boxes,
        printed=part("progress from the output", folder.last_printed, None),
        vitals=part("vitals", folder.merged_vitals, []),
        after=part("what was found after death", folder.after, AfterDeath()),
        missing=missing,
    )
    if is_past:
        return run
    return replace(
        run,
        steps=part("step history", folder.step_history, []),
        crashes=part("crashes", folder.crashes, []),
        libraries=part("native libraries", folder.libraries, {}),
        stalls=part("stalls", folder.stalls, []),
        censuses=part("censuses of memory", folder.censuses, []),
        surroundings=part("surroundings", folder.surroundings, {}),
    )
