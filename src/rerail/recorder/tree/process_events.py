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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rerail.platform import proc_files
from rerail.platform.bare_platform import is_bare
from rerail.recorder.tree import connector_filter
from rerail.recorder.tree.connector_filter import COMM, EVENT_AT, EXEC, EXIT, FORK

_NETLINK_CONNECTOR = 11
_CN_IDX_PROC = 1
_LISTEN, _IGNORE = 1, 2
_SO_RCVBUFFORCE = 33
_RECEIVE_BYTES = 32 << 20  # some 40,000 events while the recorder waits for a disk or a processor
_HEAD = struct.Struct("=IIQ4I")


class Fork(NamedTuple):
    parent: int
    pid: int
    monotonic_ns: int


class Changed(NamedTuple):
    """It runs another program now, or has given itself another name."""

    pid: int


class Exit(NamedTuple):
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
        self.has_more = False  # `read` stopped because it had as many as it was to take

    def fileno(self) -> int:
        return self._link.fileno()

    def read(self, most: int = 256) -> list[ProcessEvent]:
        """What is there now, at most so many events."""
        events: list[ProcessEvent] = []
        buffer, link = self._buffer, self._link
        self.has_more = True
        for _ in range(most):
            try:
                size = link.recv_into(buffer)
            except BlockingIOError:
                self.has_more = False
                break
            except OSError:  # ENOBUFS: the machine forks faster than we read
                self.was_overrun = True
                continue
            if size >= EVENT_AT + _HEAD.size:
                what, _, at_ns, a, b, c, d = _HEAD.unpack_from(buffer, EVENT_AT)
                if what == FORK and c == d:
                    events.append(Fork(b, c, at_ns))
                elif what == EXIT and a == b:
                    events.append(Exit(a, c, at_ns))
                elif what == EXEC or (what == COMM and a == b):
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


_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel: fixed since Linux 3.8


def open_connector(timeout_seconds: float = 0.05) -> Connector | None:
    """Subscribe, and make sure that the kernel answers."""
    link = _subscribe()
    if link is None:
        return None
    # In a container the request is dropped without a word: only an answer proves it works.
    poll = select.poll()
    poll.register(link, select.POLLIN)
    if not poll.poll(timeout_seconds * 1000):
        link.close()
        return None
    return Connector(link)


def _sees_the_machine_s_pids() -> bool:
    """The connector speaks of pids as the first namespace counts them: elsewhere they are wrong.

    Within a namespace our request is dropped, but the news that somebody else asked for arrives.
    """
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def _subscribe() -> socket.socket | None:
    if is_bare() or not _sees_the_machine_s_pids():
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
        # Without the filter `read` sees threads, and passes over them: slower, not wrong.
        connector_filter.attach(link, connector_filter.whole_processes())
        link.setblocking(False)
        link.send(_request(_LISTEN))
    except OSError:
        link.close()
        return None
    return link


class Bell:
    """A second subscription that hears of the tree's own processes alone.

    The first one keeps everything, so that nothing is lost that happens before a newcomer is
    known; this one only says when it is worth looking there. A machine where others start
    processes all day does not wake the recorder.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    @classmethod
    def hang(cls) -> Bell | None:
        link = _subscribe()
        return (
            cls(link)
            if link is not None and connector_filter.attach(link, connector_filter.only([]))
            else None
        )

    def fileno(self) -> int:
        return self._link.fileno()

    def listen_for(self, pids: Sequence[int]) -> None:
        connector_filter.attach(self._link, connector_filter.only(pids))

    def silence(self) -> None:
        """Forget what was heard."""
        try:
            while self._link.recv(4096):
                pass
        except OSError:
            pass

    def close(self) -> None:
        self._link.close()


class ProcessScan:
    """New pids by looking at /proc: for where the connector is closed to us."""

    def __init__(self) -> None:
        self._newest = b""
        self._seen: set[str] = set()

    def newcomers(self, *, is_thorough: bool = False) -> Iterator[int]:
        """Pids that were not there at the last look, in ascending order."""
        if is_bare() or (not is_thorough and not self._has_news()):
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
        fields = (proc_files.read_machine("loadavg") or b"").split()
        newest = fields[-1] if fields else b""
        if newest and newest == self._newest:
            return False
        self._newest = newest
        return True
