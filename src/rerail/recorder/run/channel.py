"""One stream of the command on its way to the outside, byte for byte, with a copy for the record.

In: the reading end of a pipe or a pseudo-terminal. Out: the same bytes at the outer descriptor, in
the same order. Promises: a slow reader behind us slows the command as it would have without us, and
never the recorder; when the reader is gone, our end is closed too, so that the command gets its
SIGPIPE; bytes on their way lie in memory that the guardian shares, with how far they got.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from typing import Literal

from rerail.recorder.run.sink import Sink

CHUNK_BYTES = 256 * 1024
_HEADER_BYTES = 16
LENGTH, SENT, KEPT, IS_CLOSED = range(4)  # the header's four numbers

Keep = Callable[[bytes, str], None]
State = Literal["open", "waiting", "closed"]


class Channel:
    """One stream from the command to the outside."""

    def __init__(self, source: int, sink: Sink, stream: str, *, is_terminal: bool) -> None:
        self.source = source
        self.sink = sink
        self.stream = stream
        self.is_terminal = is_terminal
        os.set_blocking(source, False)
        self._memory = mmap.mmap(-1, _HEADER_BYTES + CHUNK_BYTES)  # shared with who we fork
        view = memoryview(self._memory)
        self.numbers = view[:_HEADER_BYTES].cast("I")
        self._data = view[_HEADER_BYTES:]
        self.bytes_total = 0
        self.broken: str | None = None  # why the outside takes no more
        self.has_just_read = False
        self.is_watched = False
        self.waits_for_room = False

    @property
    def is_closed(self) -> bool:
        return bool(self.numbers[IS_CLOSED])

    @property
    def is_full(self) -> bool:
        """Whether bytes wait for room outside: then nothing more is read."""
        return self.numbers[SENT] < self.numbers[LENGTH]

    def pump(self, keep: Keep) -> State:
        """Take what is there and pass it on, one chunk; say what to wait for next."""
        if self.is_closed:
            return "closed"
        self.has_just_read = not self.is_full and self._fill()
        if not self.has_just_read and not self.is_full:
            return "closed" if self.is_closed else "open"
        return self.flush(keep)

    def flush(self, keep: Keep) -> State:
        """Pass on and keep what was read but not passed on or kept yet."""
        numbers, data = self.numbers, self._data
        length = numbers[LENGTH]
        kept = numbers[KEPT]
        if kept < length:
            # The record first: it never blocks, and what the terminal shows is then on file.
            keep(bytes(data[kept:length]), self.stream)
            numbers[KEPT] = length
        while numbers[SENT] < length:
            sent = numbers[SENT]
            try:
                count = self.sink.write(data[sent:length])
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return self._break(error)
            if count == 0:
                return "waiting"
            numbers[SENT] = sent + count
        return "open"

    def pass_on_recorded(self) -> None:
        """Pass on what a killed recorder had stored already, where that can be done now.

        The bytes of this channel are in shared memory: nothing that comes later is taken for them.
        """

    def _fill(self) -> bool:
        numbers = self.numbers
        numbers[LENGTH] = numbers[SENT] = numbers[KEPT] = 0
        try:
            count = os.readv(self.source, [self._data])
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process let go of the pseudo-terminal
            count = 0
        if count == 0:
            self.mark_closed()
            return False
        numbers[LENGTH] = count
        self.bytes_total += count
        return True

    def _break(self, error: OSError) -> State:
        """Nobody reads (EPIPE), the terminal is gone (EIO), or the file's disk is full."""
        self.broken = error.strerror or str(error)
        self.mark_closed()
        return "closed"

    def mark_closed(self) -> None:
        self.numbers[IS_CLOSED] = 1

    def close_source(self) -> None:
        """Let go of our end: who writes on gets SIGPIPE."""
        self.mark_closed()
        self.leave()

    def leave(self) -> None:
        """Let go of our end only; the guardian goes on with its own."""
        if self.source >= 0:
            os.close(self.source)
            self.source = -1

    def close(self) -> None:
        """At the end of our part."""
        self.leave()
        self.sink.close()
