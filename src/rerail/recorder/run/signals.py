"""Signals that reach the recorder, as a stream of events with their senders; and what the command
must find as if no recorder stood in between.

In: the signals that people, shells and schedulers send. Out: `Received` records from a descriptor
that the event loop watches. Promises: no handler runs Python code at a random place (the signals
are blocked and read); `SignalInbox.starting` gives the command exactly the mask and dispositions
that this process itself was started with.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from rerail.bare import StartingSignals
from rerail.platform.bare_platform import is_bare
from rerail.platform.libc import open_signalfd

# Not passed on: these cannot be caught, are about our own children, or about our own terminal.
_OWN = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}
_OWN |= {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGURG}

TERMINAL_SIGNALS = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGWINCH}

_SIGINFO = struct.Struct("=IiiII")  # signo, errno, code, pid, uid of struct signalfd_siginfo
_SIGINFO_BYTES = 128


def passed_on() -> set[int]:
    """Every signal that somebody may send to `rerail run` and mean the command."""
    return {int(s) for s in signal.valid_signals()} - {int(s) for s in _OWN}


class Received(NamedTuple):
    """One signal; who sent it is known where the kernel tells."""

    number: int
    sender_pid: int | None
    is_from_kernel: bool  # the terminal (^C, window size, hang-up) rather than kill(2)


class SignalInbox:
    """Signals as readable events, from `open` to `close`; main thread only."""

    def __init__(self) -> None:
        self.starting = StartingSignals()
        self._watched = passed_on() | {int(signal.SIGCHLD)}
        held_back = self._watched | {int(signal.SIGTTIN), int(signal.SIGTTOU)}
        self._mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, held_back)
        # An ignored SIGCHLD would make the kernel throw our children's exit statuses away.
        self._chld_before = signal.getsignal(signal.SIGCHLD)
        if self._chld_before is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        descriptor = open_signalfd(self._watched)
        self._fallback = None if descriptor is not None else _HandlerInbox(self._watched)
        self._descriptor = descriptor if self._fallback is None else self._fallback.descriptor

    @property
    def descriptor(self) -> int:
        assert self._descriptor is not None
        return self._descriptor

    def read(self) -> list[Received]:
        if self._fallback is not None:
            return self._fallback.read()
        received: list[Received] = []
        while True:
            try:
                data = os.read(self.descriptor, _SIGINFO_BYTES * 16)
            except BlockingIOError:
                return received
            for at in range(0, len(data), _SIGINFO_BYTES):
                number, _, code, pid, _ = _SIGINFO.unpack_from(data, at)
                # Codes above zero are the kernel's own; for SIGCHLD the pid is the child's.
                is_from_kernel = code > 0
                received.append(Received(number, pid or None, is_from_kernel))
            if len(data) < _SIGINFO_BYTES * 16:
                return received

    def close(self) -> None:
        """Give this process its own signals back. What is still pending is dropped."""
        self.read()
        if self._fallback is not None:
            self._fallback.close()
        else:
            os.close(self.descriptor)
        if self._chld_before is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)


class _HandlerInbox:
    """For systems without signalfd: handlers that write the number; senders stay unknown."""

    def __init__(self, watched: set[int]) -> None:
        self.descriptor, self._writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writing, False)
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        for number in watched:
            try:
                self._before[number] = signal.signal(number, self._note)
            except (OSError, ValueError):
                continue
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._before)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        try:
            os.write(self._writing, bytes([number]))
        except OSError:
            pass

    def read(self) -> list[Received]:
        try:
            numbers = os.read(self.descriptor, 512)
        except OSError:
            return []
        # A terminal sends its signals to the whole foreground group: the command has them already.
        has_terminal = os.isatty(0)
        return [Received(n, None, has_terminal and n in TERMINAL_SIGNALS) for n in numbers]

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.close(self.descriptor)
        os.close(self._writing)


def process_name(pid: int | None) -> str | None:
    """The name of a living process, to say who sent a signal."""
    if not pid or is_bare():
        return None
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() or None
    except OSError:
        return None
