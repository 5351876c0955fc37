"""A check that is told to end by a signal: at once, but never in the middle of a dry run's start.

In: SIGINT, SIGTERM, SIGHUP, SIGQUIT while `listening`. Out: `Stopped`, which carries the signal.
Promises: inside `held` a signal is only noted, so that whoever started a process can end it and
remove its files first; a signal that was ignored before stays ignored, a second one is not heard.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Stopped(BaseException):
    """Not an Exception: nothing on the way up is to take it for a failure of a dry run."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Stop:
    """Whether somebody has asked for the end; one that nobody listens for is never asked."""

    def __init__(self, on_asked: Callable[[int], None] = lambda number: None) -> None:
        self.asked: int | None = None
        self._on_asked = on_asked
        self._is_held = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """From the main thread only, as signals are."""
        before = {
            number: signal.signal(number, self._ask) or signal.SIG_DFL
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Ends with `Stopped` if it was asked for meanwhile, whatever else went wrong."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self.asked is not None:
                raise Stopped(self.asked)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked is not None:
            return
        self.asked = int(number)
        self._on_asked(self.asked)
        if not self._is_held:
            raise Stopped(self.asked)
