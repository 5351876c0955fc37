"""Carrying the command's output to where it would have gone, byte for byte, and keeping a copy.

In: the reading end of a pipe or a pseudo-terminal. Out: the same bytes at the outer descriptor, in
the same order, and in the record. Promises: a slow reader behind us slows the command as it would
have without us, and never the recorder; when the reader is gone, our end is closed too, so that the
command gets its SIGPIPE; bytes on their way lie in memory that the guardian shares, with how far
they got, so that a killed recorder loses none of them.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from typing import Literal

from rerail.recorder.loop import Loop
from rerail.recorder.sink import Sink

CHUNK_BYTES = 64 * 1024
_HEADER_BYTES = 16
_LENGTH, _SENT, _KEPT, _IS_CLOSED = range(4)  # the header's four numbers

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
        self._numbers = view[:_HEADER_BYTES].cast("I")
        self._data = view[_HEADER_BYTES:]
        self.bytes_total = 0
        self.broken: str | None = None  # why the outside takes no more
        self.has_just_read = False
        self.is_watched = False
        self.waits_for_room = False

    @property
    def is_closed(self) -> bool:
        return bool(self._numbers[_IS_CLOSED])

    @property
    def is_full(self) -> bool:
        """Whether bytes wait for room outside: then nothing more is read."""
        return self._numbers[_SENT] < self._numbers[_LENGTH]

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
        numbers, data = self._numbers, self._data
        length = numbers[_LENGTH]
        kept = numbers[_KEPT]
        if kept < length:
            # The record first: it never blocks, and what the terminal shows is then on file.
            keep(bytes(data[kept:length]), self.stream)
            numbers[_KEPT] = length
        while numbers[_SENT] < length:
            sent = numbers[_SENT]
            try:
                count = self.sink.write(data[sent:length])
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                # Nobody reads (EPIPE), the terminal is gone (EIO), or the file's disk is full.
                self.broken = error.strerror or str(error)
                self.mark_closed()
                return "closed"
            if count == 0:
                return "waiting"
            numbers[_SENT] = sent + count
        return "open"

    def _fill(self) -> bool:
        numbers = self._numbers
        numbers[_LENGTH] = numbers[_SENT] = numbers[_KEPT] = 0
        try:
            count = os.readv(self.source, [self._data])
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process let go of the pseudo-terminal
            count = 0
        if count == 0:
            self.mark_closed()
            return False
        numbers[_LENGTH] = count
        self.bytes_total += count
        return True

    def mark_closed(self) -> None:
        self._numbers[_IS_CLOSED] = 1

    def close_source(self) -> None:
        """Let go of our end: who writes on gets SIGPIPE."""
        self.mark_closed()
        self.leave()

    def leave(self) -> None:
        """Let go of our end only; the guardian goes on with its own."""
        if self.source >= 0:
            os.close(self.source)
            self.source = -1


class Relay:
    """Keeps all channels of a run going inside an event loop."""

    def __init__(
        self,
        loop: Loop,
        channels: list[Channel],
        keep: Keep,
        on_closed: Callable[[Channel], None],
    ) -> None:
        self._loop = loop
        self._keep = keep
        self._on_closed = on_closed
        self.channels = channels

    def start(self) -> None:
        for channel in self.open_channels:
            self._follow(channel, channel.flush(self._keep))

    @property
    def open_channels(self) -> list[Channel]:
        return [channel for channel in self.channels if not channel.is_closed]

    @property
    def bytes_total(self) -> int:
        return sum(channel.bytes_total for channel in self.channels)

    def _turn(self, channel: Channel) -> None:
        self._follow(channel, channel.pump(self._keep))

    def _follow(self, channel: Channel, state: State) -> None:
        """Wait for the end that has to move next. One chunk per turn: nobody starves."""
        waits_for_room = state == "waiting"
        if waits_for_room != channel.waits_for_room or not channel.is_watched:
            self._forget(channel)
            if state != "closed":
                awaited = channel.sink.descriptor if waits_for_room else channel.source
                self._loop.watch(awaited, lambda: self._turn(channel), write=waits_for_room)
                channel.is_watched = True
                channel.waits_for_room = waits_for_room
        if state == "closed":
            self._forget(channel)
            self._on_closed(channel)

    def _forget(self, channel: Channel) -> None:
        if channel.is_watched:
            awaited = channel.sink.descriptor if channel.waits_for_room else channel.source
            self._loop.forget(awaited)
            channel.is_watched = False

    def drop_broken(self) -> None:
        """A command that never writes again must still learn that its reader is gone."""
        for channel in self.open_channels:
            if channel.sink.has_lost_reader():
                channel.broken = "its reader has gone"
                channel.mark_closed()
                self._follow(channel, "closed")

    def is_idle(self) -> bool:
        """Whether everything that was there has been passed on."""
        for channel in self.open_channels:
            state = channel.pump(self._keep)
            if state == "closed":
                self._follow(channel, state)
            elif state == "waiting" or channel.has_just_read:
                return False
        return True

    def stop(self) -> None:
        for channel in self.channels:
            self._forget(channel)
