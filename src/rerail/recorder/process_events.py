"""Who was born, who became another program, who died: from the kernel's process connector.

In: a netlink socket. Out: `Fork`, `Changed` and `Exit` events of whole processes (threads are
filtered out inside the kernel, or a torch program would send hundreds). Promises: `open_connector`
answers None where the connector may not be used or stays silent (no CAP_NET_ADMIN, another user or
pid namespace), and then `ProcessScan` finds newcomers by looking at /proc, if a little later.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.recorder import glance

_NETLINK_CONNECTOR = 11
_CN_IDX_PROC = 1
_LISTEN, _IGNORE = 1, 2
_FORK, _EXEC, _COMM, _EXIT = 0x1, 0x2, 0x200, 0x80000000
_SO_RCVBUFFORCE = 33
_SO_ATTACH_FILTER = 26
_RECEIVE_BYTES = 8 << 20  # some 10,000 events while the recorder waits for a disk
_EVENT_AT = 36  # after struct nlmsghdr (16) and struct cn_msg (20): struct proc_event
_DATA_AT = _EVENT_AT + 16  # after what, cpu and timestamp_ns
_HEAD = struct.Struct("=IIQ4I")


@dataclass(frozen=True)
class Fork:
    parent: int
    pid: int
    monotonic_ns: int


@dataclass(frozen=True)
class Changed:
    """It runs another program now, or has given itself another name."""

    pid: int


@dataclass(frozen=True)
class Exit:
    pid: int
    status: int
    monotonic_ns: int


ProcessEvent = Fork | Changed | Exit


class Connector:
    """The kernel's own news of processes, of the whole machine."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = bytearray(4096)
        self.was_overrun = False  # events were lost; a scan of /proc makes up for it

    def fileno(self) -> int:
        return self._link.fileno()

    def read(self, most: int = 256) -> list[ProcessEvent]:
        """What is there now, at most so many events."""
        events: list[ProcessEvent] = []
        buffer, link = self._buffer, self._link
        for _ in range(most):
            try:
                size = link.recv_into(buffer)
            except BlockingIOError:
                break
            except OSError:  # ENOBUFS: the machine forks faster than we read
                self.was_overrun = True
                continue
            if size >= _EVENT_AT + _HEAD.size:
                what, _, at_ns, a, b, c, d = _HEAD.unpack_from(buffer, _EVENT_AT)
                if what == _FORK and c == d:
                    events.append(Fork(b, c, at_ns))
                elif what == _EXIT and a == b:
                    events.append(Exit(a, c, at_ns))
                elif what == _EXEC or (what == _COMM and a == b):
                    events.append(Changed(b))
        return events

    def close(self) -> None:
        try:
            self._link.send(_request(_IGNORE))
        except OSError:
            pass
        self._link.close()


def _request(operation: int) -> bytes:
    body = struct.pack("=IIIIHHI", _CN_IDX_PROC, 1, 0, 0, 4, 0, operation)
    return struct.pack("=IHHII", 16 + len(body), 3, 0, 0, os.getpid()) + body


def open_connector(timeout_seconds: float = 0.05) -> Connector | None:
    """Subscribe, and make sure that the kernel answers."""
    if sys.platform != "linux":
        return None
    try:
        link = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_CONNECTOR)
    except OSError:
        return None
    try:
        link.bind((0, _CN_IDX_PROC))
        try:
            link.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
        except OSError:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        _attach_filter(link)
        link.setblocking(False)
        link.send(_request(_LISTEN))
        # In a container the request is dropped without a word: only an answer proves it works.
        poll = select.poll()
        poll.register(link, select.POLLIN)
        if not poll.poll(timeout_seconds * 1000):
            raise TimeoutError
    except OSError:
        link.close()
        return None
    return Connector(link)


def _attach_filter(link: socket.socket) -> None:
    """Let through acknowledgements and execs; forks, exits and names of whole processes only.

    Classic BPF. Loads are big-endian, so constants are swapped; equal words stay equal.
    """
    import ctypes

    load, equal, equal_x, to_x, answer = 0x20, 0x15, 0x1D, 0x07, 0x06
    none, exec_, comm = (socket.htonl(what) for what in (0, _EXEC, _COMM))
    exit_, fork = (socket.htonl(what) for what in (_EXIT, _FORK))
    program = [  # (operation, instructions to skip if true, if false, operand)
        (load, 0, 0, _EVENT_AT),
        (equal, 12, 0, none),
        (equal, 11, 0, exec_),
        (equal, 2, 0, comm),
        (equal, 1, 0, exit_),
        (equal, 4, 9, fork),
        (load, 0, 0, _DATA_AT),  # an exit or a new name: pid, tgid
        (to_x, 0, 0, 0),
        (load, 0, 0, _DATA_AT + 4),
        (equal_x, 4, 5, 0),
        (load, 0, 0, _DATA_AT + 8),  # a fork: parent_pid, parent_tgid, child_pid, child_tgid
        (to_x, 0, 0, 0),
        (load, 0, 0, _DATA_AT + 12),
        (equal_x, 0, 1, 0),
        (answer, 0, 0, 0xFFFF),
        (answer, 0, 0, 0),
    ]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    kept = ctypes.create_string_buffer(code, len(code))
    where = struct.pack("@HP", len(program), ctypes.addressof(kept))
    try:
        link.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, where)
    except OSError:
        pass  # `read` sees threads then, and the tree passes over them: slower, not wrong


class ProcessScan:
    """New pids by looking at /proc: for where the connector is closed to us."""

    def __init__(self) -> None:
        self._newest = b""
        self._seen: set[str] = set()

    def newcomers(self, *, is_thorough: bool = False) -> Iterator[int]:
        """Pids that were not there at the last look, in ascending order."""
        if not is_thorough and not self._has_news():
            return
        try:
            names = set(os.listdir("/proc"))  # noqa: PTH208 - names only, hundreds at 10 Hz
        except OSError:
            return
        fresh = names - self._seen
        self._seen = names
        yield from sorted(int(name) for name in fresh if name.isdecimal())

    def _has_news(self) -> bool:
        """The last field of loadavg is the newest pid: unchanged means that nobody was born."""
        fields = (glance.read_machine("loadavg") or b"").split()
        newest = fields[-1] if fields else b""
        if newest and newest == self._newest:
            return False
        self._newest = newest
        return True
