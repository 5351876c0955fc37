"""Run until a fix is proven to the confidence asked, or refuted.

Ends with 0 when it is proven, 1 when it is refuted or not proven, 2 for wrong usage, 130 after
Ctrl-C.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail.cli._experiments import (
    answer,
    asker,
    budget_option,
    checkpoint_options,
    confidence_option,
    end_gently_when_terminated,
    fresh_option,
    has_screen,
    keep_option,
    notify_answer,
    outputs_options,
)
from rerail.cli._options import (
    command_argument,
    completes,
    home_option,
    json_option,
    notify_options,
    stall_option,
    store_to_write,
)
from rerail.cli._telling import echo
from rerail.errors import UsageError

if TYPE_CHECKING:
    from rerail.notify import Notifier


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
    shell_complete=completes("change"),
    help="The fix: '--accum 4', OMP_NUM_THREADS=1, dataloader-workers=0, 'numpy<2'. Repeat it"
    " [default: the fix is in the program already].",
)
@confidence_option(0.95, "proven")
@budget_option("1h")
@stall_option
@notify_options
@checkpoint_options
@keep_option
@outputs_options
@fresh_option
@json_option
@command_argument
def command(
    home: Path | None,
    changes: tuple[str, ...],
    confidence: float,
    budget: float,
    stall_seconds: float | None,
    checkpoint: str | None,
    resume_args: str | None,
    keeps_environments: bool,
    keeps_outputs: bool,
    yes: bool,
    fresh: bool,
    as_json: bool,
    command: tuple[str, ...],
    notifier: Notifier | None,
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
    from rerail.experiments import VerifyOptions

    options = VerifyOptions(
        confidence=confidence,
        budget_seconds=budget,
        stall_seconds=stall_seconds,
        is_fresh=fresh,
        checkpoint=checkpoint,
        resume_args=resume_args,
        keeps_environments=keeps_environments,
        keeps_outputs=keeps_outputs,
        may_write=yes,
    )
    document = _verify(command, changes, home, options)
    status = answer(document, document["summary"], as_json=as_json, good_status="proven")
    notify_answer(notifier, "verify", document, document["summary"][0], home)
    return status


def _verify(
    command: tuple[str, ...], changes: tuple[str, ...], home: Path | None, options: Any
) -> dict[str, Any]:
    from rerail.cli._printing import console
    from rerail.experiments import Lines, Screen, verify
    from rerail.remedies import paragraph

    end_gently_when_terminated()
    store = store_to_write(home)
    if has_screen():
        screen = Screen(console(to_stderr=True), asker())
        with screen.live:
            return verify(command, changes, store, options, screen)
    lines = Lines(lambda text: echo(paragraph(text), err=True), asker())
    return verify(command, changes, store, options, lines)
