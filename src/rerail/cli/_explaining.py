"""From a recorded run to what a person reads, and to the contract's document.

In: the folder of a run that has ended. Out: the diagnosis, kept in the folder as `diagnosis.json`;
the answer on standard error, on lines of its own behind a mark. Promises: the command's own ending
waits at most MOST_SECONDS for it. The diagnosis keeps to a deadline of its own; this is the net
below it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rerail.cli._telling import echo
from rerail.recorder import end_open_line
from rerail.store import RunFolder, Store

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

FAILED, SWALLOWED = ("✗", "x"), ("!", "!")  # before an answer, in a log file too
_WENT_ON = "; the command went on"  # which the exit code says
_INTERRUPTED = 130  # the exit code of a shell or a program that Ctrl-C ended
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


def explain_recording(path: Path, store: Store) -> Diagnosis:
    """Diagnose one run; the answer is kept in its folder."""
    from rerail.api import Run

    return Run(path, store).explain()


def show_answer(diagnosis: Diagnosis) -> None:
    """Show on standard error why it died; after one's own Ctrl-C that and where to read on."""
    from rerail.report import terminal

    _begin_on_a_line_of_its_own()
    terminal.show(
        diagnosis,
        sys.stderr,
        mark=f"{_mark(FAILED)} rerail: ",
        is_brief=_was_interrupted(diagnosis),
    )


def _was_interrupted(diagnosis: Diagnosis) -> bool:
    """Whether Ctrl-C is all that there is to say: who pressed it knows why the run ended."""
    outcome, leading = diagnosis.outcome, diagnosis.leading
    is_ctrl_c = outcome.signal == "SIGINT" or outcome.exit_code == _INTERRUPTED
    return is_ctrl_c and leading is not None and leading.cause.policy.is_from_outside


def say_what_was_swallowed(diagnosis: Diagnosis, folder: RunFolder) -> None:
    """Say in one line what went wrong inside a command that ended with exit code 0."""
    _begin_on_a_line_of_its_own()
    short = folder.id.rpartition("-")[2]
    said = diagnosis.headline.partition(_WENT_ON)[0].rstrip(".")
    echo(f"{_mark(SWALLOWED)} rerail: exit code 0, but: {said} (rerail explain {short})", err=True)


def _begin_on_a_line_of_its_own() -> None:
    """End the line that the command left open, such as a progress bar, and leave one empty."""
    sys.stderr.write(f"{end_open_line()}\n")


def _mark(mark: tuple[str, str]) -> str:
    """As a letter where the stream cannot show the sign."""
    try:
        mark[0].encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return mark[1]
    return mark[0]
