"""Keeping all streams of a run going inside an event loop.

In: channels, and where copies of their bytes are to be kept. Out: bytes at the outer descriptors,
and a call when a channel has closed. One chunk per turn, so that no stream starves another, nor the
signals.
"""

from __future__ import annotations

from collections.abc import Callable

from rerail.recorder.run.channel import Channel, Keep, State
from rerail.recorder.run.loop import Loop


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
                self._loop.watch(
                    awaited, lambda: self._turn(channel), write=waits_for_room, is_vital=True
                )
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
