"""How a process ended, from whoever can tell.

In: a wait status, a pidfd, or a zombie's line in /proc. Out: an `Ending` that says its source.
The kernel tells the parent; since Linux 6.15 it also tells whoever holds a pidfd, once the parent
has taken the status (PIDFD_GET_INFO); a zombie shows its status in /proc to whoever may trace it.
"""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple

from rerail.platform import proc_files
from rerail.platform.bare_platform import is_bare
from rerail.platform.signal_names import signal_name

_PIDFD_GET_INFO = 0xC0000000 | 64 << 16 | 0xFF << 8 | 11  # _IOWR(0xFF, 11, 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_EXIT_CODE_AT = 60  # the last field of the first 64 bytes
_CORE_FLAG = 0x80


class Ending(NamedTuple):
    """An exit code or a signal; neither where nobody told."""

    exit_code: int | None = None
    signal_number: int | None = None
    dumped_core: bool = False
    source: str | None = None

    @property
    def signal(self) -> str | None:
        return None if self.signal_number is None else signal_name(self.signal_number)

    def in_event(self) -> dict[str, Any]:
        """The fields of `process-ended` that say how."""
        return {
            "exit_code": self.exit_code,
            "signal": self.signal,
            "core": self.dumped_core,
            "source": self.source,
        }

    @property
    def is_known(self) -> bool:
        return self.source is not None

    @property
    def is_clean(self) -> bool:
        return self.exit_code == 0


def from_status(status: int, source: str) -> Ending:
    """Read a status as wait(2) gives it."""
    number = status & 0x7F
    if number:
        return Ending(None, number, bool(status & _CORE_FLAG), source)
    return Ending(status >> 8 & 0xFF, None, False, source)


def wait_for(pid: int) -> Ending | None:
    """Reap a child of ours if it has ended; None while it lives or where it is not our child."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return from_status(status, "wait") if reaped == pid else None


def is_over(pid: int) -> bool:
    """Whether a child of ours has ended; it stays to be reaped."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except OSError:
        return False


def from_pidfd(descriptor: int) -> Ending | None:
    """What the kernel remembers for a pidfd after the parent took the status."""
    if descriptor < 0 or is_bare():
        return None
    import fcntl

    request = bytearray(64)
    struct.pack_into("=Q", request, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, request)
    except OSError:
        return None
    if not struct.unpack_from("=Q", request)[0] & _PIDFD_INFO_EXIT:
        return None
    return from_status(struct.unpack_from("=i", request, _EXIT_CODE_AT)[0], "pidfd")


def from_zombie(pid: int, start_ticks: int) -> Ending | None:
    """The status in a zombie's stat line. Who may not trace the process reads 0 there."""
    try:
        text = proc_files.read(pid, "stat") or b""
        fields = text[text.rindex(b")") + 2 :].split()
        if fields[0] not in (b"Z", b"X") or (start_ticks and int(fields[19]) != start_ticks):
            return None
        status = int(fields[49])
    except (ValueError, IndexError):
        return None
    if status == 0 and os.geteuid() != 0:
        return None
    return from_status(status, "zombie")
