"""What a live run does now, looked at once for everybody who watches, and pushed to them.

In: run folders. Out: messages, plain JSON values: how it stands, the newest vitals, the lines that
were printed since. Promises: a watched run is looked at LOOKS_PER_SECOND times a second however
many watch, mostly by asking for sizes and times of a few files; a run that nobody watches is not
looked at; only what was added is read; the process itself is never touched.

This is the only module here that reads a run while it happens.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from rerail.diagnosis import ending_on_record
from rerail.errors import RerailError
from rerail.live import Snapshot, loss_of, memory_of, progress_of
from rerail.platform.os_text import shown_value
from rerail.records import BlackBox, PrintedPoint, VitalsRow
from rerail.report import masked_line
from rerail.report.run_list import where_it_stands
from rerail.store import (
    BoxReader,
    FollowedLines,
    OutputLine,
    RunFolder,
    VitalsDecoder,
    encode,
    layout,
    open_regular,
)
from rerail.ui.library import Library
from rerail.ui.printed import shown_line
from rerail.wording import duration_in_words

LOOKS_PER_SECOND = 2
SLOW_SECONDS = 1.0  # between looks at the list, and at what the processes tell of themselves
MOST_NEW_LINES = 400
MOST_NEW_BYTES = 1 << 20
FIRST_LINES = 40
MOST_LIVE = 200  # rows of the list that move
_QUEUE = 8  # messages that a slow page may lag behind
_END_BYTES = 16 << 10
_ROWS = 20  # two seconds at 10 Hz
_WATCHED = (
    layout.RUN,
    layout.EVENTS,
    layout.OUTPUT,
    layout.VITALS_RECENT,
    layout.DIAGNOSIS,
    layout.STALLS,
)
Message = dict[str, Any]


class Look:
    """One run, looked at again and again. `take` says what is new; None if nothing is."""

    def __init__(self, library: Library, folder: RunFolder) -> None:
        self._library = library
        self._folder = folder
        self._seen: list[tuple[int, int]] = []
        self._next: tuple[int, int] | None = None  # number and offset of the line to read next
        self._last_partial = b""
        self._box_reader: BoxReader | None = None
        self._boxes: list[BlackBox] = []
        self._printed: list[PrintedPoint] = []
        self._boxes_at = 0.0
        self._stalled_at: float | None = None
        self._place = ""  # of a run that stands still: " in hang.py:7 save()"
        self._row_lines = FollowedLines(folder.path / layout.VITALS_RECENT)
        self._row_decoder = VitalsDecoder(folder.path / layout.VITALS_RECENT)
        self._rows: deque[VitalsRow] = deque(maxlen=_ROWS)
        self._said: Message = {}
        self.is_over = False

    def take(self) -> Message | None:
        seen = [_size_and_time(self._folder, name) for name in _WATCHED]
        now = time.monotonic()
        is_due = now - self._boxes_at >= SLOW_SECONDS
        if seen == self._seen and not is_due:
            return None
        changed = {
            name
            for name, old, new in zip(_WATCHED, self._seen or [(-2, 0)] * 9, seen, strict=False)
            if old != new
        }
        self._seen = seen
        if is_due:
            self._boxes_at = now
            self._boxes = _quietly(self._read_boxes, [])
            self._printed = _quietly(lambda: self._folder.printed_progress(_END_BYTES), [])
        return self._message(changed)

    def _message(self, changed: set[str]) -> Message | None:
        try:
            info = self._folder.info()
        except RerailError:
            return None
        self.is_over = info.state != "running"
        if layout.VITALS_RECENT in changed:
            new = _quietly(lambda: list(self._row_decoder.rows(self._row_lines.new())), [])
            self._rows.extend(new)
        if layout.EVENTS in changed or layout.STALLS in changed:
            self._stalled_at = self._stall()
            self._place = where_it_stands(self._folder) if self._stalled_at is not None else ""
        lines = self._new_lines() if layout.OUTPUT in changed or self.is_over else []
        elapsed = info.elapsed_seconds or max(0.0, time.time() - info.started_unix)
        last = self._rows[-1] if self._rows else None
        memory = memory_of([], list(self._rows), False) if self._rows else None
        snapshot = Snapshot(info, elapsed, boxes=self._boxes, printed_progress=self._printed)
        standing: Message = {
            "run": info.id,
            "state": info.state,
            "is_bad": self.is_over and ending_on_record(self._folder) != "ok",
            "summary": info.outcome.summary if info.outcome is not None else "",
            "is_stuck": self._stalled_at is not None,
            "stuck_seconds": None
            if self._stalled_at is None
            else round(elapsed - self._stalled_at, 1),
            "stuck_in": self._place,
            "elapsed_seconds": round(elapsed, 1),
            "elapsed": duration_in_words(elapsed),
            "progress": progress_of(snapshot, []),
            "loss": loss_of(snapshot),
            "memory": memory,
            "processes": last.process_count if last is not None else None,
            "points": [_point(row) for row in list(self._rows)[-10:]],
            "lines": lines,
        }
        message: Message = encode(shown_value(standing))
        said = {key: value for key, value in message.items() if not key.startswith("elapsed")}
        if not lines and said == self._said:
            return None
        self._said = said
        return message

    def _read_boxes(self) -> list[BlackBox]:
        if self._box_reader is None:
            began_ns = self._folder.info().t0_ns
            self._box_reader = BoxReader(self._folder.agent_files(), began_ns)
        return self._box_reader.read()

    def _stall(self) -> float | None:
        """Since when it has stood still; None if it does not."""
        since = None
        for event in _quietly(lambda: list(self._folder.events(_END_BYTES * 4)), []):
            if event.kind == "stall":
                silent = event.data.get("silent_seconds")
                since = event.t_seconds - (float(silent) if isinstance(silent, (int, float)) else 0)
            elif event.kind == "stall-over":
                since = None
        return since

    def _new_lines(self) -> list[Message]:
        """Lines that the watchers do not have; the last one again while it still grows."""
        lines = self._added_lines() if self._next is not None else None
        if lines is None:
            lines = self._folder.output().tail(MOST_NEW_LINES if self._next else FIRST_LINES)
            lines = [line for line in lines if self._next is None or line.number >= self._next[0]]
        if not lines:
            return []
        last = lines[-1]
        end = last.offset + len(last.text) + 1
        self._next = (last.number + 1, end) if last.is_whole else (last.number, last.offset)
        if not last.is_whole and len(lines) == 1 and last.text == self._last_partial:
            return []
        self._last_partial = b"" if last.is_whole else last.text
        redactor = self._library.redactor(self._folder)
        return [shown_line(masked_line(line, redactor)) for line in lines]

    def _added_lines(self) -> list[OutputLine] | None:
        """What stands behind the lines that were sent, read from there on.

        None where that is too much, or where the output has gone on in another file: then the
        store's reader finds the end, which of a large output takes longer.
        """
        assert self._next is not None
        number, offset = self._next
        path = self._folder.path / layout.OUTPUT
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                has_more = any(self._folder.path.glob("output.tail-*"))
                if has_more or not offset <= size <= offset + MOST_NEW_BYTES:
                    return None
                file.seek(offset)
                *whole, rest = file.read(size - offset).split(b"\n")
        except OSError:
            return None
        lines = []
        for text in whole:
            lines.append(OutputLine(number, text, offset))
            number, offset = number + 1, offset + len(text) + 1
        if rest:
            lines.append(OutputLine(number, rest, offset, is_whole=False))
        return lines[-MOST_NEW_LINES:]


class Pushed(NamedTuple):
    """A message as it is sent: written once, however many pages get it."""

    text: str
    is_last: bool


def pushed(message: Message) -> Pushed:
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    return Pushed(text, message.get("state", "running") != "running")


class Watch:
    """One run and everybody who watches it."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._queues: set[asyncio.Queue[Pushed]] = set()
        self._task: asyncio.Task[None] | None = None
        self.last: Message | None = None

    @property
    def is_watched(self) -> bool:
        return bool(self._queues)

    def join(self) -> asyncio.Queue[Pushed]:
        queue: asyncio.Queue[Pushed] = asyncio.Queue(_QUEUE)
        if self.last is not None:
            queue.put_nowait(pushed({**self.last, "lines": [], "points": []}))
        self._queues.add(queue)
        if self._task is None:
            self._task = asyncio.create_task(self._go_on())
        return queue

    def leave(self, queue: asyncio.Queue[Pushed]) -> None:
        self._queues.discard(queue)
        if not self._queues and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            message = await loop.run_in_executor(None, self._look.take)
            if message is not None:
                self.last = message
                written = pushed(message)
                for queue in self._queues:
                    if queue.full():
                        queue.get_nowait()  # the page sees the gap in the numbers and asks
                    queue.put_nowait(written)
            if self._look.is_over:
                return
            await asyncio.sleep(max(0.05, 1 / LOOKS_PER_SECOND - (loop.time() - began)))


class Watches:
    """Those of all runs that somebody looks at."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._watches: dict[str, Watch] = {}
        self.count = 0  # of pages

    @asynccontextmanager
    async def watching(self, run_id: str) -> AsyncIterator[asyncio.Queue[Pushed]]:
        loop = asyncio.get_running_loop()
        folder = await loop.run_in_executor(None, self._library.folder, run_id)
        watch = self._watches.get(folder.id)
        if watch is None:
            watch = self._watches[folder.id] = Watch(Look(self._library, folder))
        queue = watch.join()
        try:
            yield queue
        finally:
            watch.leave(queue)
            if not watch.is_watched:
                self._watches.pop(folder.id, None)

    async def list_changes(self) -> AsyncIterator[Message]:
        """A message whenever a row of the list says something else: begun, gone, moved on."""
        loop = asyncio.get_running_loop()
        last: Any = None
        while True:
            state, rows = await loop.run_in_executor(None, self._live_rows)
            said = (state, rows)
            if said != last:
                yield {"list": state, "rows": rows}
                last = said
            await asyncio.sleep(SLOW_SECONDS)

    def _live_rows(self) -> tuple[str, list[Message]]:
        _, entries = self._library.listing()
        leaves = [leaf for entry in entries for leaf in entry.members or (entry,)]
        live = [leaf for leaf in leaves if leaf.state in ("live", "stuck")][:MOST_LIVE]
        rows = [
            {
                "id": entry.id,
                "state": entry.state,
                "words": entry.words,
                "step": entry.step,
                "elapsed": duration_in_words(entry.elapsed_seconds or 0.0),
            }
            for entry in live
        ]
        # What a group says changes with every trial; what a live run says is in its row.
        shape = [
            (entry.id, entry.state, len(entry.members), entry.words if entry.members else "")
            for entry in entries
        ]
        return format(hash(tuple(shape)) & 0xFFFFFFFF, "08x"), shown_value(rows)


def _point(row: VitalsRow) -> Message:
    tree = row.tree
    return {
        "t": round(row.t_seconds, 2),
        "rss_bytes": tree.rss_bytes,
        "anon_bytes": tree.anon_bytes,
        "shared_bytes": tree.shared_bytes,
        "threads": tree.threads,
        "fds": tree.fds,
        "cpu_seconds": tree.cpu_seconds,
    }


def _size_and_time(folder: RunFolder, name: str) -> tuple[int, int]:
    try:
        status = os.lstat(folder.path / name)
        return status.st_size, status.st_mtime_ns
    except OSError:
        return -1, 0


def _quietly(read: Callable[[], Any], otherwise: Any) -> Any:
    """A part that cannot be read just now is as it would be if it were not there."""
    try:
        return read()
    except RerailError:
        return otherwise
