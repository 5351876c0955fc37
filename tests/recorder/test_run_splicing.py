"""A channel from pipe to pipe whose recorder was killed between moving its bytes and saying so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rerail.recorder.run.channel import LENGTH
from rerail.recorder.run.sink import Sink
from rerail.recorder.run.splicing import SplicingChannel, open_channel


class Pipes:
    def __init__(self) -> None:
        source, self.command = os.pipe()
        self.outside, sink = os.pipe()
        self.channel = open_channel(source, Sink(sink), "stdout", is_terminal=False)
        self.kept = b""

    def keep(self, data: bytes, stream: str) -> None:
        self.kept += data

    def passed_on(self) -> bytes:
        os.set_blocking(self.outside, False)
        try:
            return os.read(self.outside, 1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    pipes = Pipes()
    if not isinstance(pipes.channel, SplicingChannel):
        pytest.skip("this system cannot splice between pipes")
    yield pipes
    pipes.channel.close()
    for descriptor in (pipes.command, pipes.outside):
        os.close(descriptor)


def test_what_is_printed_after_the_guardian_has_looked_is_stored(pipes: Pipes) -> None:
    pipes.channel.numbers[LENGTH] = 1000  # stored and moved; the recorder died before it said so
    pipes.channel.pass_on_recorded()
    os.write(pipes.command, b"later\n")
    pipes.channel.flush(pipes.keep)
    pipes.channel.pump(pipes.keep)
    assert pipes.passed_on() == pipes.kept == b"later\n"


def test_what_was_stored_and_not_moved_is_passed_on_and_not_stored_again(pipes: Pipes) -> None:
    os.write(pipes.command, b"stored\n")
    pipes.channel.numbers[LENGTH] = len(b"stored\n")
    pipes.channel.pass_on_recorded()
    assert pipes.passed_on() == b"stored\n"
    assert pipes.kept == b""
