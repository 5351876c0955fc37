"""What a user sees when something fails: a sentence, what to type next, an exit status.

In: any exception that left a command. Out: text on standard error and the status of the contract: 2
for wrong usage, unreadable input and defects of rerail's own, 130 for Ctrl-C, 141 when the reader
of a pipe went away. A traceback goes into a file, and to the terminal only with RERAIL_DEBUG=1.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from rerail import bare
from rerail.cli._telling import echo
from rerail.errors import RerailError, UsageError

INTERRUPTED = 130
PIPE_CLOSED = 141
FAILED = 2


def was_typed_wrong(error: BaseException) -> bool:
    """The user can mend it at once, or has changed their mind: then nothing is run."""
    return isinstance(error, (click.ClickException, UsageError, KeyboardInterrupt, click.Abort))


def run_bare(error: BaseException) -> int:
    """The command of a `rerail run` could not be recorded: run it without us."""
    _show_traceback(error)
    if isinstance(error, RerailError):
        return bare.run(error.message)
    why = bare.in_one_line(error)
    is_of_machine = isinstance(error, (OSError, MemoryError))
    return bare.run(why if is_of_machine else f"{why} (details: {_save_details(error)})")


def report_failure(error: BaseException) -> int:
    """Say what happened; the exit status that says the same."""
    _show_traceback(error)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _forget_standard_output()
        return PIPE_CLOSED
    if isinstance(error, RerailError):
        _say(f"rerail: {error.message}")
        if error.help_text:
            _say(error.help_text)
        return error.exit_status
    if isinstance(error, click.ClickException):
        return _report_usage(error)
    _say(f"rerail: a defect of rerail itself: {bare.in_one_line(error)}")
    _say(f"The details are in {_save_details(error)}: please report them.")
    return FAILED


def _show_traceback(error: BaseException) -> None:
    if os.environ.get("RERAIL_DEBUG") == "1" and not isinstance(error, click.ClickException):
        import traceback

        traceback.print_exception(error)


def _report_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return FAILED
    context = getattr(error, "ctx", None)
    _say(f"rerail: {_uncapitalised(error.format_message())}")
    if context is not None:
        _say(f"Type `{context.command_path} --help` for how to use it.")
    return FAILED


def _save_details(error: BaseException) -> str:
    """Where the traceback was written. Never into a folder that is not there to be written in."""
    import tempfile
    import traceback

    from rerail.privacy import Masker

    name = time.strftime("rerail-defect-%Y%m%d-%H%M%S-", time.gmtime()) + f"{os.getpid()}.log"
    masker = Masker()
    command = " ".join(masker.mask_command(sys.argv))
    text = f"{command}\n\n{masker.mask_text(''.join(traceback.format_exception(error)))}"
    for folder in (_existing_home(), Path(tempfile.gettempdir())):
        if folder is None:
            continue
        try:
            path = folder / name
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return str(path)
        except OSError:
            continue
    return "no file, since none could be written; set RERAIL_DEBUG=1 to see them"


def _existing_home() -> Path | None:
    from rerail.store import find_home

    try:
        home = find_home(for_reading=True)
    except OSError:
        return None  # the working folder is gone
    return home if home.is_dir() else None


def _forget_standard_output() -> None:
    """Nobody reads it any more; the interpreter must not complain about that when it ends."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    except (OSError, ValueError):
        pass


def _say(text: str) -> None:
    try:
        echo(text.replace("\r", "\\x0d"), err=True)
    except OSError:
        pass


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
