"""Waiting for many things at once, in one thread: descriptors and timers, each with a callback.

Promises: a callback that raises does not end the loop; it is reported through `on_failure`, and a
timer that keeps failing is dropped, so that a broken sense costs its own data and nothing else;
what the command itself waits for (its output) is never dropped.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_FAILURES = 3
PAUSE_SECONDS = 0.01  # before something vital that keeps failing is tried again


@dataclass
class Timer:
    name: str
    interval_seconds: float
    callback: Callable[[], None]
    due: float
    failures: int = 0


class Loop:
    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._selector = selectors.DefaultSelector()
        self._on_failure = on_failure
        self._timers: list[Timer] = []
        self._failures: dict[int, int] = {}
        self._vital: set[int] = set()
        self._is_running = False

    def watch(
        self,
        descriptor: int,
        callback: Callable[[], None],
        *,
        write: bool = False,
        is_vital: bool = False,
    ) -> None:
        """Call back whenever the descriptor is readable (or writable); if vital, however often it
        fails."""
        event = selectors.EVENT_WRITE if write else selectors.EVENT_READ
        self.forget(descriptor)  # also where a closed one had the same number
        self._selector.register(descriptor, event, callback)
        if is_vital:
            self._vital.add(descriptor)

    def forget(self, descriptor: int) -> None:
        self._vital.discard(descriptor)
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError, OSError):
            pass

    def every(
        self, interval_seconds: float, name: str, callback: Callable[[], None], first: float = 0.0
    ) -> Timer:
        timer = Timer(name, interval_seconds, callback, time.monotonic() + first)
        self._timers.append(timer)
        return timer

    def drop(self, timer: Timer) -> None:
        if timer in self._timers:
            self._timers.remove(timer)

    def stop(self) -> None:
        self._is_running = False

    def run(self, until: float | None = None) -> None:
        """Until `stop`, or until this time on the monotonic clock."""
        self._is_running = True
        while self._is_running:
            now = time.monotonic()
            if until is not None and now >= until:
                return
            wake_at = min((timer.due for timer in self._timers), default=now + 3600.0)
            if until is not None:
                wake_at = min(wake_at, until)
            self.turn(max(wake_at - now, 0.0))

    def turn(self, timeout_seconds: float) -> None:
        """Wait once, call back whoever is ready, then the timers that are due."""
        for key, _events in self._selector.select(timeout_seconds):
            # A callback before this one may have let go of the descriptor.
            if self._selector.get_map().get(key.fd) is key:
                try:
                    key.data()
                    self._failures.pop(key.fd, None)
                except Exception as error:
                    self._note_failure(key.fd, error)
        now = time.monotonic()
        for timer in [timer for timer in self._timers if timer.due <= now]:
            try:
                timer.callback()
                timer.failures = 0
            except Exception as error:
                timer.failures += 1
                if timer.failures == 1:
                    self._on_failure(timer.name, error)
                if timer.failures >= MOST_FAILURES:
                    self.drop(timer)
            # From now on, not from when it was due: after a pause there is nothing to catch up.
            timer.due = max(timer.due + timer.interval_seconds, time.monotonic())

    def _note_failure(self, descriptor: int, error: Exception) -> None:
        """One failure is an accident; a callback that always fails would only burn CPU time."""
        self._failures[descriptor] = self._failures.get(descriptor, 0) + 1
        if self._failures[descriptor] == 1:
            self._on_failure(f"descriptor {descriptor}", error)
        if self._failures[descriptor] >= MOST_FAILURES:
            if descriptor in self._vital:
                time.sleep(PAUSE_SECONDS)
            else:
                self.forget(descriptor)

    def close(self) -> None:
        self._selector.close()
