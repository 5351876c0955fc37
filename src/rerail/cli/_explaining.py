"""From a recorded run to what a person reads, and to the contract's document.

In: the folder of a run that has ended. Out: the diagnosis, kept in the folder as `diagnosis.json`
and shown on standard error. Promises: the command's own ending waits at most MOST_SECONDS for it.
The diagnosis keeps to a deadline of its own; this is the net below it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rerail.store import Store

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

MOST_SECONDS = 15.0  # the deadline, the same again on a busy machine, and the report


class AnswerOverdue(BaseException):
    """The answer took too long. Not an Exception: nobody on the way may take it for theirs."""


@contextlib.contextmanager
def at_most(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Raise AnswerOverdue in the block when the time is over. For the main thread of `run`."""

    def over(*_: object) -> NoReturn:
        raise AnswerOverdue

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def explain_recording(path: Path, store: Store, *, shows: bool) -> Diagnosis:
    """Diagnose one run, and show the answer if asked to."""
    from rerail.api import Run

    diagnosis = Run(path, store).explain()
    if shows:
        from rerail.report import terminal

        terminal.show(diagnosis, sys.stderr)
    return diagnosis
