"""The user's terminal, and the pseudo-terminal that the command sees in its place.

In: the three standard descriptors that `rerail run` was started with. Out: for each, what the
command gets instead (itself, a pipe, a pseudo-terminal), so that `isatty` answers as it would have.
Promises: the terminal's own modes are changed only while this process is in its foreground, and
`OuterTerminal.restore` brings them back from every way out.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import struct
import termios
from typing import Any, NamedTuple

from rerail.platform import proc_files

STREAMS = ("stdin", "stdout", "stderr")


class StandardStreams(NamedTuple):
    """What the three descriptors are, before anything is changed."""

    is_terminal: tuple[bool, bool, bool]
    is_closed: frozenset[int]
    stdin_is_stdout: bool  # the same terminal
    stdout_is_stderr: bool  # the same file, pipe or terminal: their order must be kept

    @property
    def is_interactive(self) -> bool:
        """A person at the keyboard: what is typed goes to the command, through us.

        With the output in a pipe (… | less) somebody else reads the same keyboard, and the
        command keeps the real terminal as its input.
        """
        return self.is_terminal[0] and self.is_terminal[1] and self.stdin_is_stdout

    @property
    def has_terminal(self) -> bool:
        return any(self.is_terminal)


def survey(closed: set[int]) -> StandardStreams:
    flags = [descriptor not in closed and os.isatty(descriptor) for descriptor in range(3)]
    return StandardStreams(
        (flags[0], flags[1], flags[2]),
        frozenset(closed),
        _is_same_file(0, 1),
        _is_same_file(1, 2) and not {1, 2} & closed,
    )


def _is_same_file(one: int, other: int) -> bool:
    a, b = os.fstat(one), os.fstat(other)
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev)


class PseudoTerminal:
    """A pair of ends; the command gets the slave."""

    def __init__(self, like: int, *, is_output_only: bool) -> None:
        self.master, self.slave = os.openpty()
        try:
            attributes = termios.tcgetattr(like)
            if is_output_only:
                # The real terminal behind us turns \n into \r\n: once is enough.
                attributes[1] &= ~termios.OPOST
            termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        except termios.error:
            pass
        self.copy_size(like)

    def copy_size(self, like: int) -> None:
        """Take over the window size; the kernel tells the command with SIGWINCH."""
        try:
            size = fcntl.ioctl(like, termios.TIOCGWINSZ, bytes(8))
            if struct.unpack("4H", size) != (0, 0, 0, 0):
                fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            pass

    def special_characters(self) -> dict[int, int]:
        """The bytes that the line discipline turns into signals just now, and which ones."""
        try:
            attributes = termios.tcgetattr(self.master)
        except termios.error:
            return {}
        if not attributes[3] & termios.ISIG:
            return {}
        characters = attributes[6]
        found = {
            _code(characters[termios.VINTR]): int(signal.SIGINT),
            _code(characters[termios.VQUIT]): int(signal.SIGQUIT),
            _code(characters[termios.VSUSP]): int(signal.SIGTSTP),
        }
        found.pop(0, None)  # _POSIX_VDISABLE: switched off
        return found

    def foreground_group(self) -> int | None:
        try:
            return os.tcgetpgrp(self.master)
        except OSError:
            return None


def _code(character: bytes | int) -> int:
    return character if isinstance(character, int) else character[0]


class OuterTerminal:
    """The terminal that the user sits at. Forked copies share the knowledge of its mode."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._shared = mmap.mmap(-1, 1)
        try:
            self._cooked: list[Any] = termios.tcgetattr(descriptor)
        except termios.error:
            self._cooked = []

    @property
    def is_raw(self) -> bool:
        return self._shared[0] == 1

    def is_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.descriptor) == os.getpgrp()
        except OSError:
            return False

    def make_raw(self) -> bool:
        """Hand every key through, ^C too: the inner terminal makes the signals. True if raw now."""
        if self.is_raw:
            return True
        if not self.is_foreground():
            return False
        try:
            self._cooked = termios.tcgetattr(self.descriptor)
            raw = termios.tcgetattr(self.descriptor)
            raw[0] &= ~(
                termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON
                | termios.IGNBRK | termios.PARMRK | termios.INLCR | termios.IGNCR
            )  # fmt: skip
            raw[1] &= ~termios.OPOST
            raw[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN)
            raw[3] &= ~termios.ISIG
            raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self.descriptor, termios.TCSANOW, raw)
        except termios.error:
            return False
        self._shared[0] = 1
        return True

    def restore(self) -> None:
        """Back to how the shell left it. Without effect if nothing was changed."""
        if not self.is_raw:
            return
        self._shared[0] = 0
        try:
            termios.tcsetattr(self.descriptor, termios.TCSANOW, self._cooked)
        except termios.error:
            pass


def stops_on(pid: int, number: int) -> bool:
    """Whether this process leaves the signal to its default: neither caught nor ignored."""
    masks = _signal_masks(pid)
    return bool(masks) and not any(mask >> (number - 1) & 1 for mask in masks.values())


def ignores(pid: int, number: int) -> bool:
    return bool(_signal_masks(pid).get(b"SigIgn:", 0) >> (number - 1) & 1)


def _signal_masks(pid: int) -> dict[bytes, int]:
    """What the process ignores and what it catches; empty where that is not known."""
    text = proc_files.read(pid, "status") or b""
    words = [line.split() for line in text.splitlines()]
    names = (b"SigIgn:", b"SigCgt:")
    return {each[0]: int(each[1], 16) for each in words if len(each) > 1 and each[0] in names}
