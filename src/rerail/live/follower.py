"""Reading one run again and again, at the cost of what is new.

In: a run folder, live, ended or lost. Out: a `Snapshot` per look. Promises: nothing is written and
no process is asked; memory is bounded however long the run is; a part that cannot be read is said
to be missing, and the others are read all the same.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rerail.errors import UnreadableInput
from rerail.live.snapshot import Snapshot
from rerail.live.view import warnings_of
from rerail.records import BlackBox, Event, PrintedPoint, RunInfo, VitalsRow
from rerail.store import (
    BoxReader,
    FollowedLines,
    FollowedOutput,
    ProcessAssembly,
    RunFolder,
    VitalsDecoder,
    events_of,
    layout,
    printed_points,
)
from rerail.store.liveness import scope

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

T = TypeVar("T")

# The events that a view is made of.
WANTED = (
    *("stall", "stall-over", "missing", "limit-near", "gate", "note"),
    "signal-forwarded",
    *("straggler", "straggler-over", "rank-missing", "rank-missing-over"),
)
VITALS_BYTES = 1 << 20  # the last quarter of an hour, about
EVENT_BYTES = 16 << 20
PROGRESS_BYTES = 32 * 1024  # some hundred rows
OUTPUT_LINES = 200
MOST_VITALS = 1800  # half an hour
MOST_RECENT = 300  # half a minute at 10 Hz
MOST_EVENTS = 500
MOST_PROCESSES = 1000
MOST_POINTS = 256


def take_snapshot(folder: RunFolder) -> Snapshot:
    """Read what one screen needs, in bounded time however long the run is."""
    return Follower(folder).look()


class Follower:
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        path = folder.path
        self._event_lines = FollowedLines(path / layout.EVENTS, EVENT_BYTES)
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._processes = ProcessAssembly(MOST_PROCESSES)
        self._vitals = _Rows(path, layout.VITALS, MOST_VITALS)
        self._recent = _Rows(path, layout.VITALS_RECENT, MOST_RECENT)
        self._has_read_old = False
        self._boxes: BoxReader | None = None
        self._output = FollowedOutput(path)
        self._progress_lines = FollowedLines(path / layout.PROGRESS, PROGRESS_BYTES)
        self._progress: deque[PrintedPoint] = deque(maxlen=MOST_POINTS)
        self._surroundings: dict[str, Any] = {}
        self._warnings: list[str] | None = None
        self._diagnosis: Diagnosis | None = None

    def look(self) -> Snapshot:
        info = self.folder.info()
        events = list(events_of(self.folder.path / layout.EVENTS, self._event_lines.new()))
        self._processes.add(events)
        self._events.extend(event for event in events if event.kind in WANTED)
        missing: list[Event] = []

        def part(what: str, read: Callable[[], T], otherwise: T) -> T:
            """run.json and the events are the run; another part that cannot be read is missing."""
            try:
                return read()
            except UnreadableInput as error:
                missing.append(Event(0.0, "missing", {"what": what, "why": error.message}))
                return otherwise

        now = now_seconds(info)
        no_boxes: list[BlackBox] = []
        boxes = part("black boxes", lambda: self._read_boxes(info), no_boxes)
        return Snapshot(
            info=info,
            now_seconds=now,
            processes=self._processes.records(),
            boxes=boxes,
            silent_seconds=self._silent_seconds(boxes, now) if info.state == "running" else None,
            vitals=part("vitals", self._vitals.read, []),
            recent=part("recent vitals", self._read_recent, []),
            printed=part("output", lambda: self._output.tail(OUTPUT_LINES), []),
            printed_progress=part("progress from the output", self._read_progress, []),
            surroundings=part("surroundings", self._read_surroundings, {}),
            diagnosis=self._read_diagnosis(info),
            warnings=self._warnings,
            events=[*self._events, *missing],
        )

    def _read_boxes(self, info: RunInfo) -> list[BlackBox]:
        if self._boxes is None:
            self._boxes = BoxReader(self.folder.agent_files(), info.t0_ns)
        return self._boxes.read()

    def _silent_seconds(self, boxes: Sequence[BlackBox], now: float) -> float:
        told = max((box.last_progress_t_seconds or 0.0 for box in boxes), default=0.0)
        try:
            printed = time.time() - (self.folder.path / layout.OUTPUT).stat().st_mtime
        except OSError:
            printed = now  # nothing yet
        return max(0.0, min(now - told, printed))

    def _read_recent(self) -> Sequence[VitalsRow]:
        if not self._has_read_old:
            self._has_read_old = True
            old = _Rows(self.folder.path, layout.VITALS_RECENT_OLD, MOST_RECENT)
            self._recent.kept.extend(old.read())
        return self._recent.read()

    def _read_progress(self) -> list[PrintedPoint]:
        self._progress.extend(printed_points(self._progress_lines.new()))
        return list(self._progress)

    def _read_surroundings(self) -> dict[str, Any]:
        """Written once; whole or not at all. What they bode is found out once too."""
        if not self._surroundings and (found := self.folder.surroundings()):
            self._surroundings, self._warnings = found, warnings_of(found)
        return self._surroundings

    def _read_diagnosis(self, info: RunInfo) -> Diagnosis | None:
        if info.state != "running" and self._diagnosis is None:
            from rerail.diagnosis import diagnosis_on_record

            self._diagnosis = diagnosis_on_record(self.folder)
        return self._diagnosis


class _Rows:
    """The last rows of one vitals file."""

    def __init__(self, folder: Path, name: str, most: int) -> None:
        self._lines = FollowedLines(folder / name, VITALS_BYTES)
        self._decoder = VitalsDecoder(folder / name)
        self.kept: deque[VitalsRow] = deque(maxlen=most)

    def read(self) -> list[VitalsRow]:
        self.kept.extend(self._decoder.rows(self._lines.new()))
        return list(self.kept)


def now_seconds(info: RunInfo) -> float:
    if info.state != "running":
        return info.elapsed_seconds or 0.0
    if info.t0_ns and info.recorder_scope == scope():
        return max(0.0, (time.monotonic_ns() - info.t0_ns) / 1e9)  # a clock jump moves nothing
    return max(0.0, time.time() - info.started_unix)
