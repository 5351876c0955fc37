"""Reading one run, live or over, here or copied from elsewhere.

In: a run folder. Out: the dataclasses of `rerail.records`. Promises: a torn tail costs the last
record; what is not there gives an empty value; what is there and cannot be read as what it should
be gives UnreadableInput naming the file, and for a foreign schema both numbers. Links, pipes and
devices are not read, and no file costs more than its bound (bounds.py); `left_out` says what was
not read for that. Nothing is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from rerail.bounded import Time
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
    TrackedRun,
    VitalsRow,
)
from rerail.store import bounds, layout, liveness
from rerail.store.agent_files import AgentFiles
from rerail.store.appending import describe
from rerail.store.codec import DecodeError, decode, decoder_of, fits, loads, observed
from rerail.store.event_fields import EVENT_FIELDS
from rerail.store.jsonlines import check_schema, read_objects, unreadable
from rerail.store.output_reader import OutputReader
from rerail.store.private import PrivateRecord, read_private
from rerail.store.process_records import assemble_processes
from rerail.store.regular_files import is_own_folder, read_regular, regular_size
from rerail.store.vitals_rows import read_rows

T = TypeVar("T")

_TIME = decoder_of(Time)
_LAST_BYTES = 64 * 1024  # of the events, to see when the last one was
_LAST_POINT_BYTES = 2048  # of printed progress: a row has about 120 bytes


def printed_points(values: Iterable[dict[str, Any]]) -> Iterator[PrintedPoint]:
    """The rows of progress.jsonl that can be believed."""
    for value in values:
        with suppress(DecodeError):
            yield decode(PrintedPoint, value)


def events_of(path: Path, values: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """The events that these lines of `path` hold."""
    for value in values:
        t, kind = value.pop("t", None), value.pop("kind", None)
        if not isinstance(kind, str) or not fits(_TIME, t):
            continue
        if kind == "run-started":
            check_schema(path, value.get("schema"), layout.SCHEMA)
        yield Event(float(t), kind, observed(value, EVENT_FIELDS))


class RunFolder:
    """The reading end of a run folder. Each call reads the files anew: a live run moves on."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def id(self) -> str:
        return self.path.name

    def info(self) -> RunInfo:
        """`run.json`; a run whose recorder is gone without an ending is `lost`."""
        info = self._info_as_written()
        if info.state != "running" or self._is_live(info):
            return info
        return dataclasses.replace(info, state="lost", elapsed_seconds=self._last_seen_seconds())

    def is_live(self) -> bool:
        """Whether somebody is still recording this run."""
        return self._is_live(self._info_as_written())

    @property
    def t0_ns(self) -> int:
        """Monotonic nanoseconds at the start of the run, on the machine that recorded it."""
        return self._info_as_written().t0_ns

    def events(self, last_bytes: int | None = None) -> Iterator[Event]:
        path = self.path / layout.EVENTS
        return events_of(path, read_objects(path, last_bytes))

    def processes(self) -> list[ProcessRecord]:
        """Every process of the tree, in order of appearance."""
        return assemble_processes(self.events())

    def vitals(self, last_bytes: int | None = None) -> Iterator[VitalsRow]:
        """The whole run, thinned; or, of a long run, what the end of the file holds."""
        return read_rows(self.path / layout.VITALS, last_bytes)

    def recent_vitals(self) -> list[VitalsRow]:
        """The last minute or two at 10 Hz, oldest first."""
        rows = [
            *read_rows(self.path / layout.VITALS_RECENT_OLD),
            *read_rows(self.path / layout.VITALS_RECENT),
        ]
        rows.sort(key=lambda row: row.t_seconds)
        return rows

    def merged_vitals(self) -> list[VitalsRow]:
        """The whole run, oldest first: thinned, and at 10 Hz from where those rows begin."""
        recent = self.recent_vitals()
        begin = recent[0].t_seconds if recent else float("inf")
        return [*(row for row in self.vitals() if row.t_seconds < begin), *recent]

    def output(self) -> OutputReader:
        return OutputReader(self.path, was_cut_off=self._was_cut_off())

    def last_output_unix(self) -> float | None:
        """When the command last said something; None if it never did."""
        heard = []
        for path in (self.path / layout.OUTPUT, *self.path.glob("output.tail-*.log")):
            try:
                status = path.lstat()
            except OSError:
                continue  # the oldest tail goes when a new one is begun
            if regular_size(path):
                heard.append(status.st_mtime)
        return max(heard, default=None)

    def agent_files(self) -> AgentFiles:
        """What the processes wrote of themselves: of a live run in memory, else in the folder."""
        return AgentFiles(self.path)

    def boxes(self) -> list[BlackBox]:
        """What each process last said of itself, in order of their start."""
        if not self._agent_files("*.box*"):
            return []
        from rerail.store.blackbox import read_all_boxes

        return read_all_boxes(self.agent_files(), self.t0_ns)

    def crashes(self) -> list[Crash]:
        """Symbolised crashes, or the raw ones where nobody has symbolised them yet."""
        try:
            document = self._document(layout.CRASHES)
            if document is not None:
                return self._records(Crash, document, layout.CRASHES)
        except UnreadableInput:
            if not self._agent_files("*.crash"):
                raise
        paths = self._agent_files("*.crash")
        if not paths:
            return []
        from rerail.store.crashfile import read_crash

        crashes = self._agent_records(paths, read_crash)
        return sorted(crashes, key=lambda crash: (crash.t_seconds or 0.0, crash.pid))

    def censuses(self) -> list[list[Census]]:
        """Of each process whose memory grew, what it held, oldest first."""
        paths = self._agent_files("*.census")
        if not paths:
            return []
        from rerail.store.censuses import read_censuses

        return [each for each in self._agent_records(paths, read_censuses) if each]

    def tracked_runs(self) -> list[TrackedRun]:
        """Runs in experiment trackers that its processes had open when they ended."""
        paths = self._agent_files("*.trackers")
        if not paths:
            return []
        from rerail.store.tracked_runs import read_tracked_runs

        return [run for each in self._agent_records(paths, read_tracked_runs) for run in each]

    def libraries(self) -> dict[str, list[MappedLibrary]]:
        """Native libraries last seen in each process, by ProcessRecord.key."""
        found = {}
        left = bounds.ALL_MAPS_BYTES
        for path in self._files(layout.MAPS, "*.json"):
            left -= regular_size(path) or 0
            if left < 0:
                break
            name = f"{layout.MAPS}/{path.name}"
            document = self._document(name)
            if document is not None:
                found[path.stem] = self._records(MappedLibrary, document, name)
        return found

    def stalls(self) -> list[Stall]:
        found = []
        for value in read_objects(self.path / layout.STALLS):
            with suppress(DecodeError):
                found.append(decode(Stall, value))
        return found

    def printed_progress(self, last_bytes: int | None = None) -> list[PrintedPoint]:
        """How far the training said that it was, oldest first; or the first time and the last."""
        return list(printed_points(read_objects(self.path / layout.PROGRESS, last_bytes)))

    def step_history(self) -> list[StepRow]:
        """Steps and losses of the whole run, thinned: as agents counted them, then as printed."""
        rows = []
        for value in read_objects(self.path / layout.STEPS):
            with suppress(DecodeError):
                row = decode(StepRow, value)
                if row.step > 0 and fits(_TIME, row.t_seconds):
                    rows.append(row)
        return rows + [
            StepRow(max(point.step or 0, point.steps), point.t_seconds, point.loss)
            for point in self.printed_progress()
        ]

    def last_printed(self) -> PrintedPoint | None:
        return next(reversed(self.printed_progress(_LAST_POINT_BYTES)), None)

    def after(self) -> AfterDeath:
        document = self._document(layout.AFTER)
        return (
            AfterDeath() if document is None else self._record(AfterDeath, document, layout.AFTER)
        )

    def surroundings(self) -> dict[str, Any]:
        return self._document_object(layout.SURROUNDINGS)

    def private(self) -> PrivateRecord:
        """The command as it was typed and what the masks stand for: never to be shown or sent."""
        return read_private(self.path)

    def diagnosis(self) -> dict[str, Any]:
        """`diagnosis.json` as the contract has it; empty until somebody has explained the run."""
        return self._document_object(layout.DIAGNOSIS)

    def missing(self) -> list[tuple[str, str]]:
        """What the recorder could not write or find out, and why."""
        return [
            (str(event.data.get("what", "")), str(event.data.get("why", "")))
            for event in self.events()
            if event.kind == "missing"
        ]

    def left_out(self) -> list[tuple[str, str]]:
        """Of which files not everything is read, and why."""
        found = []
        for name, (most, _) in bounds.LOGS.items():
            size = regular_size(self.path / name) or 0
            if size > most:
                found.append((name, f"only {most >> 20} MiB of {size >> 20} MiB were read"))
        for name, most in ((layout.OUTPUT, bounds.OUTPUT_BYTES),):
            if (regular_size(self.path / name) or 0) > most:
                found.append((name, f"only its first {most >> 20} MiB were read"))
        maps = sum(regular_size(path) or 0 for path in self._files(layout.MAPS, "*.json"))
        if maps > bounds.ALL_MAPS_BYTES:
            found.append((layout.MAPS, f"only {bounds.ALL_MAPS_BYTES >> 20} MiB were read"))
        return found

    def _info_as_written(self) -> RunInfo:
        document = self._document(layout.RUN)
        if document is None:
            raise UnreadableInput(
                f"{self.path} is not a run folder: it has no {layout.RUN}",
                "`rerail runs` lists the runs on record.",
            )
        return self._record(RunInfo, document, layout.RUN)

    def _is_live(self, info: RunInfo) -> bool:
        return liveness.is_live(self.path, info)

    def _was_cut_off(self) -> bool:
        try:
            return self.info().state == "lost"
        except UnreadableInput:
            return True

    def _last_seen_seconds(self) -> float | None:
        """The latest moment that anything was written of."""
        latest: float | None = None
        try:
            for event in self.events(_LAST_BYTES):
                latest = max(latest or 0.0, event.t_seconds)
            for row in self.recent_vitals()[-1:]:
                latest = max(latest or 0.0, row.t_seconds)
        except UnreadableInput:
            pass
        return latest

    def _agent_files(self, pattern: str) -> list[Path]:
        return list(self.agent_files().glob(pattern))[: bounds.AGENT_FILES]

    def _files(self, folder: str, pattern: str) -> list[Path]:
        if not is_own_folder(self.path / folder):
            return []
        return sorted((self.path / folder).glob(pattern))

    def _agent_records(self, paths: list[Path], read: Callable[[Path, int], T | None]) -> list[T]:
        t0_ns = self.t0_ns
        found = []
        for path in paths:
            try:
                record = read(path, t0_ns)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unreadable(path, describe(error)) from None
            if record is not None:
                found.append(record)
        return found

    def _document(self, name: str) -> Any:
        """Parsed JSON with a schema that we know; None if the file is not there.

        A list without a schema is taken as it is: `maps/` may be written that way.
        """
        path = self.path / name
        try:
            value = loads(read_regular(path, bounds.document_bytes(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(path, describe(error)) from None
        except DecodeError as error:
            raise unreadable(path, f"not JSON, or only the beginning of it ({error})") from None
        if isinstance(value, dict):
            check_schema(path, value.get("schema"), layout.SCHEMA)
        elif not isinstance(value, list):
            raise unreadable(path, "neither an object nor a list")
        return value

    def _document_object(self, name: str) -> dict[str, Any]:
        value = self._document(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise unreadable(self.path / name, "a list where an object belongs")
        return value

    def _record(self, kind: type[T], value: Any, name: str) -> T:
        try:
            return decode(kind, value, name)
        except DecodeError as error:
            raise unreadable(self.path / name, str(error)) from None

    def _records(self, kind: type[T], value: Any, name: str) -> list[T]:
        items = value.get("items") if isinstance(value, dict) else value
        if not isinstance(items, list):
            raise unreadable(self.path / name, "it holds no list of items")
        try:
            return decode(list[kind], items, name)  # type: ignore[valid-type]
        except DecodeError as error:
            raise unreadable(self.path / name, str(error)) from None
