"""Run until a fix is proven to the confidence asked, or refuted.

Ends with 0 when it is proven, 1 when it is refuted or not proven, 2 for wrong usage, 130 after
Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from rerail.cli._duration import Duration
from rerail.cli._options import home_option, json_option, store_to_write
from rerail.errors import UsageError

_INTERRUPTED = 130


@click.command(
    name="verify",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: rerail verify --with one-openmp-runtime -- python train.py",
)
@home_option
@click.option(
    "--with",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="The fix: '--accum 4', OMP_NUM_THREADS=1, dataloader-workers=0. Repeat it"
    " [default: the fix is in the program already].",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1.0, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="How sure to be before it is called proven.",
)
@click.option(
    "--budget",
    type=Duration(),
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Stop then.",
)
@click.option(
    "--stall",
    "stall_seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="No step and no output for this long is a hang [default: from the run's own pace].",
)
@click.option("--fresh", is_flag=True, help="Start anew instead of going on.")
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
def command(
    home: Path | None,
    changes: tuple[str, ...],
    confidence: float,
    budget: float,
    stall_seconds: float | None,
    fresh: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run CMD with a fix until it is proven that the failure is gone.

    How long that takes depends on how often it failed before, and is said first. What the fix
    costs in throughput, memory and loss is said at the end. After Ctrl-C the same command goes on.
    """
    if not command:
        raise UsageError(
            "there is no command to verify",
            "Type it after --, as in: rerail verify --with '--workers 0' -- python train.py",
        )
    from rerail.remedies.verify import VerifyOptions

    options = VerifyOptions(confidence, budget, stall_seconds, fresh)
    document = _verify(command, changes, home, options)
    _tell(document, as_json=as_json)
    if document["ended_because"] == "interrupted":
        return _INTERRUPTED
    return 0 if document["status"] == "proven" else 1


def _verify(
    command: tuple[str, ...], changes: tuple[str, ...], home: Path | None, options: Any
) -> dict[str, Any]:
    from rerail.cli._printing import console
    from rerail.remedies.paragraphs import paragraph
    from rerail.remedies.verify import verify
    from rerail.remedies.verify_view import Lines, Screen

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: keep everything
    store = store_to_write(home)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        screen = Screen(console(to_stderr=True))
        with screen.live:
            return verify(command, changes, store, options, screen)
    lines = Lines(lambda text: click.echo(paragraph(text), err=True))
    return verify(command, changes, store, options, lines)


def _tell(document: dict[str, Any], *, as_json: bool) -> None:
    from rerail.cli._printing import console, print_json

    printer = console(to_stderr=as_json)
    for line in document["summary"]:
        printer.print(line, markup=False)
    if as_json:
        print_json(document)
