"""What the user types, handed through to the command's own terminal.

In: bytes from the outer terminal in raw mode. Out: the same bytes at the inner one, whose line
discipline makes signals of ^C, ^\\ and ^Z as the real one would have. Promises: keys are read only
while we are in the foreground; a command that does not read cannot block the recorder; each signal
key is reported, so that the record knows that a person stopped the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rerail.recorder.run.loop import Loop
from rerail.recorder.run.terminal import OuterTerminal, PseudoTerminal

_READ_BYTES = 4096


class Keyboard:
    def __init__(
        self,
        loop: Loop,
        outer: OuterTerminal,
        inner: PseudoTerminal,
        on_signal_key: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._outer = outer
        self._inner = inner
        self._on_signal_key = on_signal_key
        self._pending = b""
        self._is_reading = False
        # The relay watches the same terminal for reading: for writing it needs its own number.
        self._writing = os.dup(inner.master)
        os.set_blocking(self._writing, False)

    def attend(self) -> None:
        """Take the terminal if we are in its foreground; called at the start and now and then."""
        if not self._is_reading and not self._pending and self._outer.make_raw():
            self._is_reading = True
            self._loop.watch(self._outer.descriptor, self._read)

    def let_go(self) -> None:
        """Give the terminal back: before stopping, and at the end."""
        self._stop_reading()
        self._outer.restore()

    def close(self) -> None:
        self.let_go()
        self._loop.forget(self._writing)
        os.close(self._writing)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._loop.forget(self._outer.descriptor)
            self._is_reading = False

    def _read(self) -> None:
        try:
            typed = os.read(self._outer.descriptor, _READ_BYTES)
        except OSError:  # EIO: the terminal is gone, or we are in the background now
            typed = b""
        if not typed:
            self.let_go()
            return
        keys = self._inner.special_characters()
        numbers = [keys[byte] for byte in typed if byte in keys]
        self._pending += typed
        self._write()
        if numbers and self._pending:
            # The inner terminal is full of unread keys; a real one would still see the ^C.
            group = self._inner.foreground_group()
            if group:
                os.killpg(group, numbers[-1])
        for number in numbers:
            self._on_signal_key(number)

    def _write(self) -> None:
        try:
            sent = os.write(self._writing, self._pending)
            self._pending = self._pending[sent:]
        except BlockingIOError:
            pass
        except OSError:  # nobody has the inner terminal open any more
            self._pending = b""
        if self._pending:
            self._stop_reading()
            self._loop.watch(self._writing, self._write, write=True)
        else:
            self._loop.forget(self._writing)
            self.attend()
