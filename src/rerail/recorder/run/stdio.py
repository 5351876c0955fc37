"""What the command gets as its three standard streams, and the channels that come out of them.

In: the survey of our own three descriptors. Out: a `Stdio` with the command's descriptors and, for
each stream that passes through us, a `Channel`. A terminal becomes a pseudo-terminal, anything else
a pipe; stdin is itself, unless a person is typing. Two streams that are the same file share one
pipe, because only then is their order exact.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from rerail.recorder.run.channel import Channel
from rerail.recorder.run.sink import Sink
from rerail.recorder.run.splicing import open_channel
from rerail.recorder.run.terminal import STREAMS, OuterTerminal, PseudoTerminal, StandardStreams


@dataclass
class Stdio:
    streams: StandardStreams
    channels: list[Channel]
    descriptors: tuple[int, int, int]
    terminal: PseudoTerminal | None  # where the command's output goes to a terminal
    outer: OuterTerminal | None  # only with a person at the keyboard
    _inner_ends: list[int] = field(default_factory=list)

    @property
    def is_interactive(self) -> bool:
        return self.outer is not None

    def close_inner_ends(self) -> None:
        """After the command has them: else the end of its output would never be seen."""
        for descriptor in self._inner_ends:
            os.close(descriptor)
        self._inner_ends.clear()


def connect(streams: StandardStreams) -> Stdio:
    inner = [0, 1, 2]
    channels: list[Channel] = []
    ends: list[int] = []
    terminal: PseudoTerminal | None = None
    for group in _outputs(streams):
        first = group[0]
        name = STREAMS[first] if len(group) == 1 else "output"
        if streams.is_terminal[first]:
            is_keyboard = streams.is_interactive and first == 1
            pair = PseudoTerminal(first, is_output_only=not is_keyboard)
            reading, writing = pair.master, pair.slave
            terminal = terminal or pair
            if is_keyboard:
                inner[0] = writing
        else:
            reading, writing = os.pipe()
        ends.append(writing)
        is_terminal = streams.is_terminal[first]
        channels.append(open_channel(reading, Sink(first), name, is_terminal=is_terminal))
        for descriptor in group:
            inner[descriptor] = writing
    outer = OuterTerminal(0) if streams.is_interactive else None
    return Stdio(streams, channels, (inner[0], inner[1], inner[2]), terminal, outer, ends)


def _outputs(streams: StandardStreams) -> list[list[int]]:
    """The descriptors that pass through us; those that are the same file together."""
    present = [descriptor for descriptor in (1, 2) if descriptor not in streams.is_closed]
    if len(present) == 2 and streams.stdout_is_stderr:
        return [present]
    return [[descriptor] for descriptor in present]


def pass_through(streams: StandardStreams) -> Stdio:
    """Where no pipe can be made (too many open files): the command keeps our own three."""
    return Stdio(streams, [], (0, 1, 2), None, None)
