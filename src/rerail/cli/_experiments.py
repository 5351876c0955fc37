"""What the commands that experiment with the user's own command have in common.

Ctrl-C and SIGTERM keep what was learnt; people's text goes to standard error beside a document.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rerail.cli._numbers import Duration, FiniteRange
from rerail.cli._options import say_notices, store_to_write

if TYPE_CHECKING:
    from rerail.notify import Notifier

F = TypeVar("F", bound=Callable[..., Any])

_INTERRUPTED = 130
# What an experiment was made for; any other status is only its end.
_PROOFS = ("confirmed", "none-of-these", "proven", "refuted")


def confidence_option(default: float, word: str) -> Callable[[F], F]:
    """--confidence, given to the command under that name."""
    return click.option(
        "--confidence",
        type=FiniteRange(0.5, 1.0, min_open=True, max_open=True),
        default=default,
        show_default=True,
        help=f"How sure to be before it is called {word}.",
    )


def budget_option(default: str) -> Callable[[F], F]:
    """--budget TIME, given to the command in seconds."""
    return click.option(
        "--budget",
        type=Duration(),
        default=default,
        show_default=True,
        metavar="TIME",
        help="Stop then.",
    )


def fresh_option(function: F) -> F:
    return click.option("--fresh", is_flag=True, help="Start anew instead of going on.")(function)


def checkpoint_options(function: F) -> F:
    """--checkpoint and --resume-args, as those of `rerail run`."""
    pattern = click.option(
        "--checkpoint",
        metavar="GLOB",
        help="Where CMD leaves its checkpoints: trials begin at the newest sound one before the"
        " failure, if it fails from there too [default: as in the recorded run].",
    )
    arguments = click.option(
        "--resume-args",
        metavar="ARGS",
        help="How CMD is told: '--resume {checkpoint}', or 'NAME={checkpoint}' for a variable.",
    )
    return pattern(arguments(function))


def keep_option(function: F) -> F:
    return click.option(
        "--keep",
        "keeps_environments",
        is_flag=True,
        help="Keep the environments that were built for other versions.",
    )(function)


def outputs_options(function: F) -> F:
    """--keep-outputs and --yes: what becomes of what trials write."""
    keep = click.option(
        "--keep-outputs",
        "keeps_outputs",
        is_flag=True,
        help="Keep what each trial wrote, in a folder of its own that is named at the end"
        " [default: it is removed].",
    )
    yes = click.option(
        "--yes",
        "yes",
        is_flag=True,
        help="Do not ask: trials may write where CMD writes if this machine cannot keep them from"
        " it, and go on if CMD fails in no run.",
    )
    return keep(yes(function))


def end_gently_when_terminated() -> None:
    """SIGTERM as Ctrl-C: keep everything."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def has_screen() -> bool:
    """Whether standard error can be drawn on."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def asker() -> Callable[[str], bool] | None:
    """Asks the user yes or no; None where nobody is there to answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return lambda question: click.confirm(question, default=False, err=True)


def answer(
    document: dict[str, Any], lines: Iterable[str], *, as_json: bool, good_status: str
) -> int:
    """Print it; the exit status."""
    from rerail.cli._printing import console, print_json

    printer = console(to_stderr=as_json)
    for line in lines:
        printer.print(line, markup=False)
    if as_json:
        print_json(document)
    if document["ended_because"] == "interrupted":
        return _INTERRUPTED
    return 0 if document["status"] == good_status else 1


def notify_answer(
    notifier: Notifier | None, what: str, document: dict[str, Any], headline: str, home: Path | None
) -> None:
    """Tell those who are not here, as kept beside the run that showed the failure."""
    was_interrupted = document["ended_because"] == "interrupted"
    if notifier is None or (was_interrupted and has_screen()):
        return
    failure = document.get("failure") or {}
    run = failure.get("run")
    changes = [word for change in document["changes"] for word in ("--with", change)]
    following = {
        "confirmed": ["rerail", "verify", *changes],
        "refuted": ["rerail", "isolate"],
        "proven": ["rerail", "runs"],
        "not-proven": ["rerail", "verify", *changes],
    }.get(document["status"], ["rerail", "isolate"])
    if following[1] != "runs":
        following += ["--", *document["command"]]
    notices = notifier.experiment_ended(
        what,
        headline,
        event="proof" if document["status"] in _PROOFS else "end",
        status=document["status"],
        next_command=following,
        details=[f"the failure: {failure['summary']}"] if failure.get("summary") else (),
        run=run,
        keep_in=[store_to_write(home).runs / run] if run else (),
    )
    say_notices(notices)
