"""The process that writes the record of one run, so that nothing else waits for its disk.

In: the run's writer, which is forked with it, and calls of its methods from a socket. Out: the run
folder. Promises: calls are carried out in the order in which they arrive; a call that fails is said
to be missing, once per method, and the next one is carried out; it ends after `finish` or `let_go`,
or when nobody is left who could call.
"""

from __future__ import annotations

import marshal
import mmap
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rerail.platform.descriptors import close_all_but, point_at_null
from rerail.platform.own_helper import stand_apart
from rerail.records import Outcome
from rerail.store.writer import RunWriter

MESSAGE_BYTES = 128 * 1024  # at most, and a little for the name of the method; more is in a file
DONE = b"."  # the answer to a call that asked for one
IN_A_FILE = b"file"  # instead of a message: it is in the memory file that comes with this
_BUFFER_BYTES = MESSAGE_BYTES + 64 * 1024
_LOOK_MILLISECONDS = 100
_DESCRIPTOR_BYTES = 4


class Call(NamedTuple):
    """A method of the writer, of its vitals files (`vitals.write`), or one of `_Serving`."""

    method: str
    arguments: Sequence[Any]
    named: dict[str, Any]
    is_to_be_told: bool = False  # that it is done

    def to_bytes(self) -> bytes:
        return marshal.dumps((self.method, tuple(self.arguments), self.named, self.is_to_be_told))


class Started(NamedTuple):
    pid: int
    link: socket.socket


def start(writer: RunWriter) -> Started:
    """Fork it. The caller must not use `writer` any more while this process lives."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _BUFFER_BYTES)
        pid = os.fork()
    except BaseException:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        status = 1
        try:
            ours.close()
            close_all_but([0, 1, 2, theirs.fileno(), *writer.descriptors])
            for descriptor in range(3):
                point_at_null(descriptor)
            stand_apart("rerail-writer")
            writer.masker.known.let_number(os.getpid())
            _Serving(writer, theirs).run()
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    ours.setblocking(False)
    writer.masker.known.let_number(pid)
    return Started(pid, ours)


class _Serving:
    """The process itself."""

    def __init__(self, writer: RunWriter, link: socket.socket) -> None:
        self._writer = writer
        self._link = link
        self._buffer = bytearray(_BUFFER_BYTES)
        self._has_ended = False
        self._failed: set[str] = set()
        self._own: dict[str, Callable[..., None]] = {
            "together": self._together,
            "finish": self._finish,
            "let_go": self._let_go,
        }

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        while not self._has_ended:
            if poll.poll(_LOOK_MILLISECONDS if self._writer.holds_output else None):
                self._carry_out(self._next_call())
            elif self._writer.holds_output:
                self._carry_out(Call("look_at_output", (), {}))

    def _next_call(self) -> Call:
        """Wait for a call; if nobody is left who could call, the folder is let go."""
        space = socket.CMSG_SPACE(_DESCRIPTOR_BYTES)
        try:
            size, ancillary, _, _ = self._link.recvmsg_into([self._buffer], space)
        except ConnectionResetError:  # said once, before the calls that are still there
            size, ancillary, _, _ = self._link.recvmsg_into([self._buffer], space)
        if size == 0:
            return Call("let_go", (), {})
        for _, _, data in ancillary:
            descriptor = int.from_bytes(data[:_DESCRIPTOR_BYTES], "little")
            try:
                with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as file:
                    return Call(*marshal.loads(file))
            finally:
                os.close(descriptor)
        return Call(*marshal.loads(memoryview(self._buffer)[:size]))

    def _carry_out(self, call: Call) -> None:
        try:
            self._method(call.method)(*call.arguments, **call.named)
        except Exception as error:
            if call.method not in self._failed:
                self._failed.add(call.method)
                why = f"{type(error).__name__}: {error}"
                self._writer.event("missing", what=f"record ({call.method})", why=why)
        if call.is_to_be_told:
            self._answer(DONE)

    def _method(self, name: str) -> Callable[..., Any]:
        if name in self._own:
            return self._own[name]
        owner, _, method = name.rpartition(".")
        target = self._writer.vitals if owner == "vitals" else self._writer
        found: Callable[..., Any] = getattr(target, method)
        return found

    def _together(self, calls: Sequence[tuple[Any, ...]]) -> None:
        with self._writer.together():
            for call in calls:
                self._carry_out(Call(*call))

    def _finish(self, outcome: dict[str, Any], elapsed_seconds: float) -> None:
        self._has_ended = True
        self._writer.finish(Outcome(**outcome), elapsed_seconds)
        self._answer(marshal.dumps(self._writer.missing))

    def _answer(self, data: bytes) -> None:
        with suppress(OSError):  # who asked has ended meanwhile: the other calls are still done
            self._link.send(data)

    def _let_go(self) -> None:
        """Leave the folder to who goes on with it, or as the record of a lost run."""
        self._has_ended = True
        self._writer.let_go()
