"""A channel from pipe to pipe (or file) whose bytes never pass through this process.

The kernel moves them from one pipe to the other in a single call, so that a recorder killed at any
moment has either moved a byte or not: nothing is lost and nothing comes twice. With read and write
there is a moment in between, and a scheduler that runs the awakened reader at once makes it a long
one. The copy for the record is duplicated beforehand (tee), without taking it from the pipe; only
there can a kill cost or repeat a chunk: what the command prints between the kill and the guardian's
first look, if the recorder had moved its last chunk and had not yet said so.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import termios
import time

from rerail.platform import libc
from rerail.recorder.run.channel import KEPT, LENGTH, SENT, Channel, Keep, State
from rerail.recorder.run.sink import Sink

_MOVE_NONBLOCK = 0x01 | 0x02  # SPLICE_F_MOVE | SPLICE_F_NONBLOCK
# Four times what a pipe holds by itself: a quarter of the turns. More would let a command run
# further ahead of its reader, and a user's pipes may hold 64 MiB together before new ones shrink.
PIPE_BYTES = 256 * 1024
# A reader that keeps up makes room within microseconds; for one that does not, others have a turn.
PATIENCE_SECONDS = 0.002
# A command that prints without a pause would wake us for every few kilobytes: let some gather.
GATHERING_SECONDS = 0.0002
NO_PAUSE_SECONDS = 0.001


def open_channel(source: int, sink: Sink, stream: str, *, is_terminal: bool) -> Channel:
    """The channel that suits both ends."""
    if not is_terminal and sink.can_be_spliced() and libc.has_tee() and hasattr(os, "splice"):
        return SplicingChannel(source, sink, stream, is_terminal=False)
    return Channel(source, sink, stream, is_terminal=is_terminal)


class SplicingChannel(Channel):
    """`LENGTH` counts the bytes at the head of the source that the record has already."""

    def __init__(self, source: int, sink: Sink, stream: str, *, is_terminal: bool) -> None:
        super().__init__(source, sink, stream, is_terminal=is_terminal)
        self._copies, self._copying = os.pipe()
        os.set_blocking(self._copies, False)
        os.set_blocking(self._copying, False)
        self._chunk_bytes = min(_enlarge(source), _enlarge(self._copying))
        self._had_little = False
        self._copied_at = 0.0
        self._room = select.poll()
        self._room.register(sink.descriptor, select.POLLOUT)
        self._is_plain = False  # the outer end cannot be spliced after all

    def pump(self, keep: Keep) -> State:
        if self._is_plain:
            return super().pump(keep)
        if self.is_closed:
            return "closed"
        self.has_just_read = False
        if not self.is_full and not self._copy(keep):
            return "closed" if self.is_closed else "open"
        return self.flush(keep)

    def flush(self, keep: Keep) -> State:
        if self._is_plain:
            return super().flush(keep)
        numbers = self.numbers
        if not self.is_full:
            self._discard_copies()  # of a killed recorder: the bytes themselves are still there
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while numbers[LENGTH]:
            try:
                moved = os.splice(
                    self.source, self.sink.descriptor, numbers[LENGTH], flags=_MOVE_NONBLOCK
                )
            except BlockingIOError:
                if self._is_source_empty():  # a killed recorder had moved them
                    numbers[LENGTH] = 0
                    return "open"
                left = give_up_at - time.monotonic()
                if left <= 0 or not self._room.poll(left * 1000):
                    return "waiting"
                continue
            except OSError as error:
                if error.errno == errno.EINVAL:
                    self._become_plain()
                    return super().flush(keep)
                return self._break(error)
            if moved == 0:  # a killed recorder had moved them, and could not say so any more
                numbers[LENGTH] = 0
                return "open"
            numbers[LENGTH] -= moved
        return "open"

    def pass_on_recorded(self) -> None:
        """Pass on the bytes at the head of the source that a killed recorder had stored.

        The recorder may have moved them and not said so. Do this at once: what the command prints
        until then would be counted as stored.
        """
        if self.is_full and not self._is_plain:
            self.flush(lambda data, stream: None)

    def _copy(self, keep: Keep) -> bool:
        """Duplicate what is there, for the record. False: nothing there, or closed."""
        if self._had_little and time.monotonic() - self._copied_at < NO_PAUSE_SECONDS:
            time.sleep(GATHERING_SECONDS)
        try:
            count = libc.tee(self.source, self._copying, self._chunk_bytes)
        except BlockingIOError:
            return False
        if count == 0:
            self.mark_closed()
            return False
        self._had_little = count < self._chunk_bytes // 4
        self._copied_at = time.monotonic()
        keep(os.read(self._copies, count), self.stream)
        self.numbers[LENGTH] = count
        self.bytes_total += count
        self.has_just_read = True
        return True

    def _is_source_empty(self) -> bool:
        waiting = bytearray(4)
        try:
            fcntl.ioctl(self.source, termios.FIONREAD, waiting)
        except OSError:
            return False
        return not any(waiting)

    def _discard_copies(self) -> None:
        try:
            while os.read(self._copies, self._chunk_bytes):
                pass
        except OSError:
            pass

    def _become_plain(self) -> None:
        """Take the bytes that the record has already out of the pipe, and write them."""
        self._is_plain = True
        count = os.readv(self.source, [self._data[: self.numbers[LENGTH]]])
        self.numbers[SENT] = 0
        self.numbers[KEPT] = self.numbers[LENGTH] = count

    def close(self) -> None:
        super().close()
        for descriptor in (self._copies, self._copying):
            if descriptor >= 0:
                os.close(descriptor)
        self._copies = self._copying = -1


def _enlarge(pipe: int) -> int:
    """Make room for more; how many bytes it holds then. The system may refuse: then as before."""
    try:
        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
