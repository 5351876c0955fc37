"""Keeping what the command prints: all of it up to a size, then the beginning and the end.

In: bytes as they arrive, with their stream and time. Out: output.log, tail segments and the index
of docs/run-folder.md. Promises: the bytes are on file when `write` returns, in a flood within half
a second (store/flood.py). While the disk is short of space (store/disk_reserve.py), the newest
output waits in memory; its end is written when space is free again, or when the run ends. Offsets
and line numbers count every byte the command printed, also those that were dropped or that a full
disk refused; nothing raises OSError; the size on disk is bounded however long the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.privacy import Masker, OutputMasker, mask_file
from rerail.store import layout
from rerail.store.appending import (
    RETRY_SECONDS,
    FaultLog,
    LineLog,
    make_durable,
    start_writeback,
)
from rerail.store.codec import dump_line
from rerail.store.disk_reserve import ALWAYS_STORED_BYTES, DiskReserve
from rerail.store.flood import Chunk, Flood
from rerail.store.newlines import count_newlines
from rerail.store.output_segments import find_segments, newlines_in
from rerail.store.regular_files import open_append, open_descriptor

HEAD_BYTES = 64 * 1024 * 1024
TAIL_BYTES = 16 * 1024 * 1024
MOST_TAILS = 16  # two when all is well; more, and smaller, when the disk is full now and then
_SPARE_BYTES = 1024 * 1024  # of a flood: its first lines may go, see OutputMasker.skip_to
FLOOD_HELD_BYTES = TAIL_BYTES + _SPARE_BYTES
INDEX_SECONDS = 0.1
# Past this size of the index its rows are written half as often, and again at each doubling:
# a progress bar that redraws ten times a second for a week would else outgrow the output itself.
INDEX_BYTES = 2 * 1024 * 1024
SHORT_OF_SPACE = "part of it was not stored, to leave the free space of the disk to the command"

EventSink = Callable[..., None]


@dataclass
class _Tail:
    path: Path
    offset: int  # of its first byte
    line: int  # that this byte lies in
    bytes: int = 0  # known once the segment is closed
    newlines: int = 0


class OutputLog:
    """The writing end. One per run, used by one process at a time."""

    def __init__(
        self,
        folder: Path,
        faults: FaultLog,
        event: EventSink,
        masker: Masker | None = None,
        *,
        head_bytes: int = HEAD_BYTES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        self._folder = folder
        self._faults = faults
        self._event = event
        self._masker = masker or Masker()
        self._masking = OutputMasker(self._masker)
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._flood = Flood(tail_bytes + _SPARE_BYTES)
        self._reserve = DiskReserve(folder)
        self._stored_bytes = 0  # in the head and in the tails that are still there
        self._has_gap = False  # something was dropped in front of what is written next
        self.offset = 0  # bytes printed so far
        self.newlines = 0  # lines ended so far
        self._descriptor = -1
        self._room = head_bytes
        self._has_head = False
        self._tail_number = 0
        self._tails: list[_Tail] = []
        self._lost: tuple[int, int] | None = None  # offset and newlines when the disk refused
        self._retry_at = 0.0
        self._index = LineLog(folder / layout.OUTPUT_INDEX, faults)
        self._index_bytes = 0
        self._index_seconds = INDEX_SECONDS
        self._stream: str | None = None
        self._indexed_at = -1.0

    @classmethod
    def resume(
        cls,
        folder: Path,
        faults: FaultLog,
        event: EventSink,
        masker: Masker | None = None,
        **sizes: int,
    ) -> OutputLog:
        """Go on where a killed writer stopped: counts come from the files themselves."""
        log = cls(folder, faults, event, masker, **sizes)
        segments = find_segments(folder)
        if not segments:
            return log
        last = segments[-1]
        log._has_head = True
        log._stored_bytes = sum(segment.size for segment in segments)
        log.offset = last.offset + last.size
        log.newlines = last.line - 1 + newlines_in(last)
        for segment in segments:
            number = layout.tail_number(segment.path.name)
            if number is not None:
                log._tail_number = max(log._tail_number, number)
                newlines = newlines_in(segment)
                log._tails.append(
                    _Tail(segment.path, segment.offset, segment.line, segment.size, newlines)
                )
        log._room = (log._tail_bytes if log._tails else log._head_bytes) - last.size
        try:
            log._descriptor = open_append(last.path)
            log._index_bytes = (folder / layout.OUTPUT_INDEX).stat().st_size
        except OSError as error:
            faults.add("output", error)
        return log

    def write(self, data: bytes, stream: str, t_seconds: float) -> None:
        if not data:
            return
        is_flood = self._flood.is_there(len(data), t_seconds)
        is_short = self._is_short(len(data), t_seconds)
        if is_short or (is_flood and self.offset >= self._head_bytes):
            for chunk in self._flood.hold(Chunk(data, stream, t_seconds)):
                self._leave_out(chunk.data, is_short=is_short)
        else:
            self.settle()
            self._keep_whole(data, stream, t_seconds)
        self.look(t_seconds)

    def skip(self, byte_count: int, newline_count: int) -> None:
        """Count output that is not kept, because whoever passes it on could not hold it."""
        self.settle()
        self._begin_gap()
        self.offset += byte_count
        self.newlines += newline_count

    @property
    def holds_output(self) -> bool:
        """Whether `look` has to be called: output waits in memory."""
        return self._flood.held_bytes > 0

    def look(self, t_seconds: float) -> None:
        """Now and then: a flood of output may have passed."""
        if self._flood.is_due(t_seconds) and not self._is_short(0, t_seconds):
            self.settle()

    def _is_short(self, more_bytes: int, t_seconds: float) -> bool:
        return self._reserve.is_short(
            self._stored_bytes, self._flood.held_bytes, more_bytes, t_seconds
        )

    def settle(self) -> None:
        """Write what a flood of output, or a disk short of space, left in memory."""
        for chunk in self._flood.take():
            self._keep_whole(*chunk)

    def _keep_whole(self, data: bytes, stream: str, t_seconds: float) -> None:
        """Keep a chunk; right after a gap, from where masking can begin anew."""
        if self._has_gap:
            cut = self._masking.skip_to(data)
            self._leave_out(data[:cut])
            data = data[cut:]
            self._has_gap = not data
        if data:
            self._keep(data, stream, t_seconds)

    def _leave_out(self, data: bytes, *, is_short: bool = False) -> None:
        """Count what is not kept; what comes after it goes into a segment of its own."""
        if is_short:
            self._faults.add("output", SHORT_OF_SPACE)
        self._begin_gap()
        self._count(data)

    def _begin_gap(self) -> None:
        if self._lost is None:
            self._lost = (self.offset, self.newlines)
            self._close_segment()
        self._has_gap = True

    def _keep(self, data: bytes, stream: str, t_seconds: float) -> None:
        data, corrections = self._masking.feed(data)
        for distance, masked in corrections:
            self._overwrite(self.offset - distance, masked)
        if stream != self._stream or t_seconds - self._indexed_at >= self._index_seconds:
            self._add_index_row(stream, t_seconds)
        if self._lost is None and self._descriptor >= 0 and len(data) <= self._room:
            try:
                written = os.write(self._descriptor, data)
            except OSError as error:
                self._refused(error)
                written = 0
            else:
                self._room -= written
                self._stored_bytes += written
            self._count(data[:written] if written < len(data) else data)
            if written == len(data):
                return
            data = data[written:]
        self._write_in_pieces(memoryview(data))

    def let_go(self) -> None:
        """Write what waits, and say what is missing, for whoever goes on with the files."""
        self.settle()
        self._tell_lost()

    def start_writeback(self) -> None:
        start_writeback(self._descriptor)
        self._index.start_writeback()

    def close(self) -> None:
        """Say what is missing, wait for the disk, and close."""
        self._trim_to_space()
        self.settle()
        self._tell_lost()
        make_durable(self._descriptor)
        self._close_segment()
        if self._masking.has_learnt:
            self._mask_what_came_before()
        self._index.flush(is_urgent=True)
        self._index.close()

    def _trim_to_space(self) -> None:
        """Drop the oldest output in memory that the disk has no space for; its end is kept."""
        spare = max(self._reserve.spare_bytes(self._stored_bytes), ALWAYS_STORED_BYTES)
        for chunk in self._flood.keep_newest(spare):
            self._leave_out(chunk.data, is_short=True)

    def _overwrite(self, offset: int, masked: bytes) -> None:
        """A secret arrived in two pieces: hide the first one, which is written already."""
        for segment in find_segments(self._folder):
            start, end = max(offset, segment.offset), offset + len(masked)
            end = min(end, segment.offset + segment.size)
            if start < end:
                try:
                    descriptor = open_descriptor(segment.path, os.O_WRONLY)
                    try:
                        part = masked[start - offset : end - offset]
                        os.pwrite(descriptor, part, start - segment.offset)
                    finally:
                        os.close(descriptor)
                except OSError as error:
                    self._faults.add("masking of output", error)

    def _mask_what_came_before(self) -> None:
        """Values that were printed before anything said that they are secrets."""
        for segment in find_segments(self._folder):
            try:
                mask_file(segment.path, self._masker, only_known=True)
            except OSError as error:
                self._faults.add("masking of output", error)

    def _write_in_pieces(self, data: memoryview) -> None:
        """The slow way: over a segment's end, or after the disk refused."""
        if self._lost is not None and time.monotonic() < self._retry_at:
            self._count(bytes(data))
            return
        while data:
            is_new = self._descriptor < 0 or self._room <= 0
            path = self._next_path()
            try:
                if is_new:
                    self._open_segment(path)
                written = os.write(self._descriptor, data[: self._room])
            except OSError as error:
                self._refused(error)
                if is_new:
                    _remove_if_empty(path)
                self._count(bytes(data))
                return
            self._tell_lost()
            if is_new:
                self._announce_segment(path)
            self._room -= written
            self._stored_bytes += written
            self._count(bytes(data[:written]))
            data = data[written:]

    def _count(self, data: bytes) -> None:
        self.offset += len(data)
        self.newlines += count_newlines(data)

    def _refused(self, error: OSError) -> None:
        """A gap opens here; what comes after it goes into a segment of its own."""
        self._faults.add("output", error)
        if self._lost is None:
            self._lost = (self.offset, self.newlines)
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._close_segment()

    def _tell_lost(self) -> None:
        if self._lost is not None:
            offset, newlines = self._lost
            self._lost = None
            if self.offset > offset:
                self._event(
                    "output-dropped", bytes=self.offset - offset, lines=self.newlines - newlines
                )

    def _next_path(self) -> Path:
        name = layout.tail_name(self._tail_number + 1) if self._has_head else layout.OUTPUT
        return self._folder / name

    def _open_segment(self, path: Path) -> None:
        self._close_segment()
        self._descriptor = open_append(path)
        self._room = self._tail_bytes if self._has_head else self._head_bytes

    def _announce_segment(self, path: Path) -> None:
        """Once something is in it: a disk that refuses all must not rotate good tails out."""
        line = self.newlines + 1
        if self._has_head:
            self._tail_number += 1
            self._tails.append(_Tail(path, self.offset, line))
        if self._has_head or self.offset:  # the first bytes may have been refused
            self._event("output-segment", file=path.name, offset=self.offset, line=line)
        self._has_head = True
        while len(self._tails) > MOST_TAILS or self._newer_tail_bytes() >= self._tail_bytes:
            self._drop_oldest_tail()

    def _newer_tail_bytes(self) -> int:
        return sum(tail.bytes for tail in self._tails[1:])

    def _drop_oldest_tail(self) -> None:
        tail = self._tails.pop(0)
        try:
            tail.path.unlink()
        except OSError as error:
            self._faults.add("output", error)
            return
        self._stored_bytes -= tail.bytes
        self._event("output-dropped", bytes=tail.bytes, lines=tail.newlines)

    def _close_segment(self) -> None:
        if self._descriptor >= 0:
            if self._tails:
                tail = self._tails[-1]
                tail.bytes = self.offset - tail.offset
                tail.newlines = self.newlines + 1 - tail.line
            try:
                os.close(self._descriptor)
            except OSError:
                pass
            self._descriptor = -1

    def _add_index_row(self, stream: str, t_seconds: float) -> None:
        is_soon = t_seconds - self._indexed_at < self._index_seconds
        if is_soon and self._index_bytes > INDEX_BYTES:
            if self._stream == "mixed":
                return
            stream = "mixed"  # too many changes to write each one down; said, not hidden
        row: dict[str, Any] = {"offset": self.offset, "t": round(t_seconds, 3), "stream": stream}
        line = dump_line(row)
        self._index.append(line)
        self._index_bytes += len(line)
        self._stream = stream
        self._indexed_at = t_seconds
        if self._index_bytes > INDEX_BYTES * (self._index_seconds / INDEX_SECONDS):
            self._index_seconds *= 2


def _remove_if_empty(path: Path) -> None:
    try:
        if path.stat().st_size == 0:
            path.unlink()
    except OSError:
        pass
