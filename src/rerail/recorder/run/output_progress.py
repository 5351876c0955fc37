"""How far the training is, read from what it prints while it prints it.

In: the command's output as it is relayed. Out: rows of progress.jsonl (`records.PrintedPoint`), a
few a second at most, fewer as the run gets longer; the last word is always written. Promises: to
take output costs a copy of its last bytes, whatever its size; a look reads a bounded number of
lines, in the recorder's process and between two turns of the relay. What an agent counts inside the
command is better: readers take these rows where it counted nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rerail.recorder.run_record import RunRecord
from rerail.records import PrintedPoint
from rerail.store import dump_line, layout

if TYPE_CHECKING:
    from rerail.recorder.run.printed_steps import PrintedSteps

LOOK_SECONDS = 0.2
TAIL_BYTES, MOST_LINES = 8 * 1024, 24  # of each stream, at each look
# Until a step is seen more is read: the first one tells whether the run began at its beginning.
FIRST_BYTES, HEAD_BYTES, MOST_FIRST_LINES = 1 << 20, 32 * 1024, 1000
# Past this size rows come half as often, and again at each doubling: a week of them has 5 MiB.
ROWS_BYTES = 512 * 1024
_ENDS = re.compile(rb"[\r\n]")
_TRACEBACK = "Traceback (most recent call last):"


class OutputProgress:
    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._unread: dict[str, _Unread] = {}
        self._steps: PrintedSteps | None = None  # made when there is something to read
        self._look_at = 0.0
        self._pause_seconds = LOOK_SECONDS
        self._rows_bytes = 0
        self._written_at = -1e9
        self._written: PrintedPoint | None = None
        self._said: tuple[object, ...] = (None,) * 6
        self.latest: PrintedPoint | None = None

    def feed(self, data: bytes, stream: str) -> None:
        unread = self._unread.get(stream)
        if unread is None:
            unread = self._unread[stream] = _Unread()
        unread.add(data)

    def look(self) -> None:
        """Often; reads what came since the last look, if that was long enough ago."""
        now = self._record.writer.now()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._read(now, is_last=False)

    def close(self) -> None:
        """The command has ended: also a line that it did not end."""
        self._read(self._record.writer.now(), is_last=True)

    def _read(self, now: float, *, is_last: bool) -> None:
        for unread in self._unread.values():
            if unread.is_new or is_last:
                self._read_lines(unread, is_last=is_last)
        self._update(now)
        is_due = is_last or now - self._written_at >= self._pause_seconds
        if is_due and self.latest is not self._written:
            self._write(now)

    def _read_lines(self, unread: _Unread, *, is_last: bool) -> None:
        from rerail.platform.printed_progress import read_line
        from rerail.platform.terminal_text import without_escapes
        from rerail.recorder.run.printed_steps import PrintedSteps

        steps = self._steps = self._steps or PrintedSteps()
        lines, drawn = unread.take(is_last=is_last)
        has_gap = False
        for raw, follows in lines:
            has_gap = has_gap or not follows
            text = without_escapes(raw.decode("utf-8", "replace"))
            if not unread.is_of_a_traceback(text) and (said := read_line(text)):
                steps.take(said, follows=not has_gap)
                has_gap = False
        if drawn:
            said = read_line(without_escapes(drawn.decode("utf-8", "replace")))
            # A bar is whole once its bracket is there; of a number the end may be on its way.
            if said is not None and said.unit == "bar":
                steps.take(said, follows=not has_gap)
        if steps.has_steps or unread.bytes_total > FIRST_BYTES:
            unread.keep_less()

    def _update(self, now: float) -> None:
        steps = self._steps
        if steps is None:
            return
        said = (steps.step, steps.total, steps.epoch, steps.epochs, steps.loss, steps.phase)
        # Compared as a whole: of a tuple a NaN that is the same object is the same value.
        if said != self._said:
            self._said = said
            self.latest = PrintedPoint(round(now, 3), *said, steps.steps, steps.every)

    def _write(self, now: float) -> None:
        assert self.latest is not None
        row: dict[str, Any] = {"schema": layout.SCHEMA} if self._written is None else {}
        row.update((name, value) for name, value in vars(self.latest).items() if value is not None)
        self._record.writer.append(layout.PROGRESS, row)
        self._written, self._written_at = self.latest, now
        self._rows_bytes += len(dump_line(row))
        if self._rows_bytes > ROWS_BYTES * (self._pause_seconds / LOOK_SECONDS):
            self._pause_seconds *= 2


class _Unread:
    """What one stream printed since the last look, or its last bytes if that is much."""

    def __init__(self) -> None:
        self._head = b""  # the beginning, while nothing is known of where the run began
        self._head_bytes = HEAD_BYTES
        self._tail = b""
        self._has_gap = False  # something between the two was dropped, or before the tail
        self._is_in_traceback = False
        self.is_new = False
        self.bytes_total = 0

    def is_of_a_traceback(self, line: str) -> bool:
        """Whether it quotes the program's own code: `    batch(6)` is no step."""
        begins = line.rstrip().endswith(_TRACEBACK)
        self._is_in_traceback = begins or (self._is_in_traceback and line[:1] in " \t+|")
        return self._is_in_traceback

    def add(self, data: bytes) -> None:
        self.is_new = True
        self.bytes_total += len(data)
        if (room := self._head_bytes - len(self._head)) > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) < TAIL_BYTES:
            data = self._tail + data
        elif self._tail:
            self._has_gap = True
        if len(data) > TAIL_BYTES:
            self._has_gap = True
            data = data[-TAIL_BYTES:]
        self._tail = data

    def take(self, *, is_last: bool) -> tuple[list[tuple[bytes, bool]], bytes]:
        """Whole lines, each with whether it follows the one before; and what was drawn after the
        last carriage return, which may go on."""
        self.is_new = False
        found: list[tuple[bytes, bool]] = []
        if self._has_gap:
            found = [(line, True) for line in _ENDS.split(self._head)[:-1] if line]
            *lines, rest = _ENDS.split(self._tail)
            lines = lines[1:]  # begins in the middle
        else:
            *lines, rest = _ENDS.split(self._head + self._tail)
        is_redrawn = (self._head + self._tail).endswith(b"\r" + rest)
        if is_last:
            lines.append(rest)
            rest = b""
        drawn = rest if is_redrawn else b""
        lines = [line for line in lines if line]
        most = MOST_FIRST_LINES if self._head_bytes else MOST_LINES
        if self._head_bytes and not self._has_gap and len(lines) > most:
            most //= 2  # the beginning is read as well as the end
            found = [(line, True) for line in lines[:most]]
            lines = lines[most:]
        follows = not self._has_gap and len(lines) <= most
        found += [(line, follows or at > 0) for at, line in enumerate(lines[-most:])]
        # Its end is kept, since nothing else tells that it was redrawn in place.
        self._head, self._tail, self._has_gap = b"", b"\r" + rest if drawn else rest, False
        return found, drawn

    def keep_less(self) -> None:
        """It is known where the run began, or it will not be."""
        self._head_bytes = 0
