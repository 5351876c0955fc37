"""The command's standard streams while it runs: what it prints, and what is typed for it.

In: the three streams as they were connected. Out: output passed on and kept, keys handed through.
Promises: a stream that is closed on one side is closed on the other, in the guardian's copy too;
at the end what is still on its way arrives, unless its reader is slow and the guardian goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rerail.platform.descriptors import close_inherited, point_at_null
from rerail.recorder.run.channel import Channel
from rerail.recorder.run.companions import Companions
from rerail.recorder.run.keyboard import Keyboard
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.output_progress import OutputProgress
from rerail.recorder.run.relay import Relay
from rerail.recorder.run.stdio import Stdio, connect, pass_through
from rerail.recorder.run.terminal import StandardStreams
from rerail.recorder.run_record import RunRecord
from rerail.recorder.saying import goes_beside_us, note_output

SLOW_READER_SECONDS = 0.3  # for output that somebody is slow to read; then the guardian goes on


class Streams:
    def __init__(
        self,
        standard: StandardStreams,
        loop: Loop,
        record: RunRecord,
        companions: Companions,
        progress: OutputProgress,
        *,
        owns_process: bool,
    ) -> None:
        self._loop = loop
        self._record = record
        self._companions = companions
        self._progress = progress
        self._owns_process = owns_process
        stdio = record.attempt("output", lambda: connect(standard))
        self.stdio: Stdio = stdio or pass_through(standard)
        channels = self.stdio.channels
        self._beside_us = {each.stream for each in channels if goes_beside_us(each.sink.outer)}
        self.relay = Relay(loop, self.stdio.channels, self._keep, self._closed)
        self.keyboard: Keyboard | None = None

    def open_keyboard(self, on_signal_key: Callable[[int], None]) -> None:
        """Where a person is typing; before the command starts."""
        if self.stdio.terminal is not None and self.stdio.outer is not None:
            self.keyboard = Keyboard(
                self._loop, self.stdio.outer, self.stdio.terminal, on_signal_key
            )

    def leave_to_command(self) -> None:
        """The command has its ends of the streams: let go of them, and of what it inherited."""
        self._record.attempt("end of output", self.stdio.close_inner_ends)
        if self._owns_process:
            self._record.attempt("closing descriptors", close_inherited)
            if not self.stdio.is_interactive:
                self._record.attempt("closing standard input", lambda: point_at_null(0))

    def start(self) -> None:
        self.relay.start()
        self._attend_keyboard()

    def look(self) -> None:
        """Ten times a second: readers that have gone, a terminal that is ours again."""
        self._record.attempt("output", self.relay.drop_broken)
        self._record.attempt("output", self._record.writer.look_at_output)
        self._attend_keyboard()

    def _keep(self, data: bytes, stream: str) -> None:
        self._record.keep_output(data, stream)
        if stream in self._beside_us:
            note_output(data)
        self._progress.feed(data, stream)

    def _attend_keyboard(self) -> None:
        if self.keyboard is not None:
            self._record.attempt("keyboard", self.keyboard.attend)

    def _closed(self, channel: Channel) -> None:
        """The command let go of a stream, or nobody reads it any more: pass that on."""
        if channel.broken is not None:
            self._record.writer.event("note", text=f"{channel.stream}: {channel.broken}")
        if self._companions.guardian is not None:
            self._companions.guardian.close_channel(self.stdio.channels.index(channel))
        if self.stdio.terminal is not None and self.stdio.terminal.master == channel.source:
            self.close_keyboard()
            self.keyboard = None
            self.stdio.terminal = None
        channel.close_source()
        channel.close()
        if channel.stream == "stdout" and self._owns_process:
            point_at_null(1)

    def let_rest_pass(self, has_living: Callable[[], bool], grace_seconds: float) -> None:
        """What is still on its way; and let children that end with the root be seen to end."""
        grace = time.monotonic() + grace_seconds
        moved, moved_at = self.relay.bytes_total, time.monotonic()
        while True:
            is_idle = self.relay.is_idle()
            now = time.monotonic()
            if is_idle and (not has_living() or now >= grace):
                return
            if self.relay.bytes_total != moved:
                moved, moved_at = self.relay.bytes_total, now
            is_slow = now >= max(grace, moved_at + SLOW_READER_SECONDS)
            if self._companions.has_successor and is_slow:
                return
            self._loop.turn(0.005)

    def close_keyboard(self) -> None:
        if self.keyboard is not None:
            self.keyboard.close()

    def close(self) -> None:
        for channel in self.stdio.channels:
            self._record.attempt("output", channel.close)
