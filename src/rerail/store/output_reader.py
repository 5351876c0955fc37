"""Reading what the command printed, with its true line numbers, in bounded memory.

In: a run folder. Out: lines as bytes. Lines end at newlines alone, so that numbers agree with every
other tool; a carriage return is part of its line. A line longer than a bound (a progress bar that
never ends its line) comes in pieces with the same number, cut after a carriage return if there is
one. Output that was dropped is a jump in the numbers, never a shift.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rerail.store import layout
from rerail.store.jsonlines import read_objects, unreadable
from rerail.store.output_segments import Segment, find_segments

BLOCK_BYTES = 1 << 20
LONGEST_PIECE = 1 << 20


class OutputLine(NamedTuple):
    number: int  # 1 is the first line that the command printed
    text: bytes  # without its newline
    offset: int  # of its first byte in all output
    is_whole: bool = True  # False for a piece: its line goes on in the next piece or was cut off


class Stretch(NamedTuple):
    """Bytes of one stream that arrived together."""

    offset: int
    end: int
    stream: str
    t_seconds: float


class OutputReader:
    def __init__(self, folder: Path, *, was_cut_off: bool = False) -> None:
        self._folder = folder
        self._segments = find_segments(folder, without_zeros=was_cut_off)
        self._stretches: list[Stretch] | None = None

    @property
    def size_bytes(self) -> int:
        """How much the command printed, kept or not."""
        return self._segments[-1].end if self._segments else 0

    @property
    def kept_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def dropped_bytes(self) -> int:
        return self.size_bytes - self.kept_bytes

    def __iter__(self) -> Iterator[OutputLine]:
        return self.lines()

    def lines(
        self, first: int = 1, last: int | None = None, most_bytes: int | None = None
    ) -> Iterator[OutputLine]:
        """Lines from number `first` to number `last`, both included, of at most so many bytes."""
        left = most_bytes
        for segment in self._segments:
            start, number = _beginning_before(segment, first)
            for line in _lines_of(segment, start, number=number):
                if last is not None and line.number > last:
                    return
                if line.number < first:
                    continue
                yield line
                if left is not None:
                    left -= len(line.text)
                    if left <= 0:
                        return

    def around(self, number: int, before: int = 5, after: int = 5) -> list[OutputLine]:
        return list(self.lines(max(1, number - before), number + after))

    def tail(self, count: int) -> list[OutputLine]:
        """The last lines, read from the end: as quick on a gigabyte as on a page."""
        found: deque[OutputLine] = deque()
        for segment in reversed(self._segments):
            wanted = count - len(found)
            if wanted <= 0:
                break
            found.extendleft(reversed(_tail_of(segment, wanted)))
        return list(found)[-count:] if count > 0 else []

    def read(self, offset: int, end: int) -> bytes:
        """The bytes of this stretch that were kept."""
        parts = []
        for segment in self._segments:
            first, last = max(offset, segment.offset), min(end, segment.end)
            if first < last:
                parts.append(_read(segment, first - segment.offset, last - first))
        return b"".join(parts)

    def stretches(self, stream: str | None = None) -> list[Stretch]:
        """Where each stretch of a stream begins and ends, and when it began to arrive."""
        if self._stretches is None:
            self._stretches = self._read_index()
        if stream is None:
            return list(self._stretches)
        return [stretch for stretch in self._stretches if stretch.stream == stream]

    def lines_of_stream(self, stream: str) -> Iterator[OutputLine]:
        """Lines of one stream, put together over what the others printed in between.

        A line's number and offset are those of its first byte in all output.
        """
        number = 1
        pending: OutputLine | None = None
        for stretch in self.stretches():
            for line in self._lines_between(stretch, number):
                number = line.number + line.is_whole
                if stretch.stream != stream:
                    continue
                if pending is not None:
                    text = pending.text + line.text
                    line = OutputLine(pending.number, text, pending.offset, line.is_whole)
                    pending = None
                if line.is_whole or len(line.text) > LONGEST_PIECE:
                    yield line
                else:
                    pending = line
        if pending is not None:
            yield pending

    def _lines_between(self, stretch: Stretch, number: int) -> Iterator[OutputLine]:
        """Lines of one stretch; a last one without its newline is not whole."""
        for segment in self._segments:
            first, last = max(stretch.offset, segment.offset), min(stretch.end, segment.end)
            if first >= last:
                continue
            line = segment.line if first == segment.offset else number
            yield from _lines_of(segment, first - segment.offset, last - segment.offset, line)

    def _read_index(self) -> list[Stretch]:
        rows = []
        for row in read_objects(self._folder / layout.OUTPUT_INDEX):
            offset, t, stream = row.get("offset"), row.get("t"), row.get("stream")
            if isinstance(offset, int) and isinstance(t, (int, float)) and isinstance(stream, str):
                rows.append((offset, float(t), stream))
        rows.sort(key=lambda row: row[0])
        ends = [row[0] for row in rows[1:]] + [self.size_bytes]
        return [
            Stretch(offset, end, stream, t)
            for (offset, t, stream), end in zip(rows, ends, strict=bool(rows))
            if end > offset
        ]


def _beginning_before(segment: Segment, wanted: int) -> tuple[int, int]:
    """Where a line begins, and its number: the last one found that is not past the one wanted."""
    found = 0, segment.line
    at, number = 0, segment.line
    while number < wanted and at < segment.size:
        block = _read(segment, at, min(BLOCK_BYTES, segment.size - at))
        newlines = block.count(b"\n")
        if not block or number + newlines > wanted:
            break
        if newlines:
            number += newlines
            found = at + block.rfind(b"\n") + 1, number
        at += len(block)
    return found


def _lines_of(
    segment: Segment, start: int = 0, stop: int | None = None, number: int | None = None
) -> Iterator[OutputLine]:
    number = segment.line if number is None else number
    stop = segment.size if stop is None else stop
    offset = segment.offset + start
    carry = b""
    try:
        with segment.open() as file:
            file.seek(start)
            left = stop - start
            while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
                left -= len(block)
                *whole, carry = (carry + block).split(b"\n")
                for text in whole:
                    yield OutputLine(number, text, offset)
                    offset += len(text) + 1
                    number += 1
                while len(carry) > LONGEST_PIECE:
                    cut = carry.rfind(b"\r", 0, LONGEST_PIECE) + 1 or LONGEST_PIECE
                    yield OutputLine(number, carry[:cut], offset, is_whole=False)
                    offset += cut
                    carry = carry[cut:]
    except FileNotFoundError:
        return  # a live run has moved on and dropped this segment
    except OSError as error:
        raise unreadable(segment.path, str(error.strerror)) from None
    if carry:
        yield OutputLine(number, carry, offset, is_whole=False)


def _tail_of(segment: Segment, count: int) -> list[OutputLine]:
    """The last lines of one segment. Their numbers need a count of what lies before them."""
    size = segment.size
    start = size
    newlines = 0
    # One newline more than lines wanted: the one that ends the line before the first of them.
    while start > 0 and newlines <= count:
        step = min(BLOCK_BYTES, start)
        start -= step
        newlines += _read(segment, start, step).count(b"\n")
        if size - start >= LONGEST_PIECE * 16:
            break
    number = segment.line
    at = 0
    while at < start:
        block = _read(segment, at, min(BLOCK_BYTES, start - at))
        if not block:
            break
        number += block.count(b"\n")
        at += len(block)
    kept: deque[OutputLine] = deque(maxlen=count)
    kept.extend(_lines_of(segment, start, size, number))
    return list(kept)


def _read(segment: Segment, start: int, count: int) -> bytes:
    try:
        with segment.open() as file:
            file.seek(start)
            return file.read(count)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unreadable(segment.path, str(error.strerror)) from None
