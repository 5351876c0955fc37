"""Prove the cause by experiment on the user's own command.

Ends with 0 when a change is confirmed, 1 for any other answer, 2 for wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
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
from rerail.cli._numbers import WholeRange
from rerail.cli._options import (
    command_argument,
    completes,
    home_option,
    json_option,
    notify_options,
    stall_option,
    store_to_read,
    store_to_write,
)
from rerail.cli._telling import echo
from rerail.errors import UsageError

if TYPE_CHECKING:
    from rerail.notify import Notifier


@click.command(
    name="isolate",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: rerail isolate --try '--workers 0' --try OMP_NUM_THREADS=1 -- python train.py",
)
@home_option
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="CHANGE",
    shell_complete=completes("change"),
    help="One thing to change: '--accum 4', OMP_NUM_THREADS=1, dataloader-workers=0, 'numpy<2'."
    " Repeat it [default: what the diagnosis suggests].",
)
@click.option(
    "--upgrades",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="OLD NEW",
    help="Two lists of pip freeze: try every package that differs in its old version.",
)
@click.option(
    "--since",
    metavar="DATE|FILE",
    help="The same against what is installed now: what a run before DATE recorded, or a list.",
)
@keep_option
@confidence_option(0.99, "confirmed")
@budget_option("30m")
@click.option("--max-trials", type=WholeRange(min=1), metavar="N", help="Stop after so many.")
@click.option(
    "--jobs",
    type=WholeRange(min=1),
    default=1,
    metavar="N",
    help="Trials at once [default: 1].",
)
@stall_option
@notify_options
@click.option(
    "--raise-hazard/--no-raise-hazard",
    "raises_hazard",
    default=None,
    help="Make the failure come sooner in all trials (more threads, smaller intervals), if a way"
    " is known and measured to work [default: if fewer than ten failures fit into the budget].",
)
@click.option("--alternatives", is_flag=True, help="Look for other changes that do as well.")
@click.option(
    "--scheduler",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where trials run: this machine, or a Ray cluster (RAY_ADDRESS, else one here).",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Draws the order of changes that are equally likely [default: as given].",
)
@click.option(
    "--reproducer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write the smallest command that still fails into the new folder DIR.",
)
@checkpoint_options
@click.option(
    "--edits",
    is_flag=False,
    flag_value="",
    metavar="[REV..REV]",
    help="Take back your own edits, one by one: those that are not committed, or of these commits.",
)
@click.option(
    "--bisect",
    metavar="GOOD..BAD",
    help="Find the commit that brought the failure, also one that comes at random.",
)
@fresh_option
@outputs_options
@click.option("--list", "lists", is_flag=True, help="Only show which changes apply to CMD.")
@json_option
@command_argument
def command(
    home: Path | None,
    tries: tuple[str, ...],
    upgrades: tuple[Path, Path] | None,
    since: str | None,
    keeps_environments: bool,
    confidence: float,
    budget: float,
    max_trials: int | None,
    jobs: int,
    stall_seconds: float | None,
    raises_hazard: bool | None,
    alternatives: bool,
    scheduler: str,
    seed: int | None,
    reproducer: Path | None,
    checkpoint: str | None,
    resume_args: str | None,
    edits: str | None,
    bisect: str | None,
    fresh: bool,
    keeps_outputs: bool,
    yes: bool,
    lists: bool,
    as_json: bool,
    command: tuple[str, ...],
    notifier: Notifier | None,
) -> int:
    """Prove by experiment which change makes CMD's failure go away.

    CMD is run with and without the changes, as often and as long as it takes to be sure.
    Every trial is a recorded run. After Ctrl-C the same command goes on.
    """
    if not command:
        raise UsageError(
            "there is no command to investigate",
            "Type it after --, as in: rerail isolate --try '--workers 0' -- python train.py",
        )
    if lists:
        return _list(command, home, as_json=as_json)
    from rerail.experiments import IsolateOptions, upgrades_asked_for

    upgraded = upgrades_asked_for(upgrades, since, command, store_to_write(home))
    for note in upgraded.notes:
        echo(f"rerail: {note}", err=True)
    tries = (*tries, *upgraded.changes)
    options = IsolateOptions(
        confidence=confidence,
        budget_seconds=budget,
        max_trials=max_trials,
        jobs=jobs,
        stall_seconds=stall_seconds,
        raises_hazard=raises_hazard,
        seeks_alternatives=alternatives,
        is_fresh=fresh,
        scheduler=scheduler,
        seed=seed,
        reproducer=reproducer,
        checkpoint=checkpoint,
        resume_args=resume_args,
        keeps_environments=keeps_environments,
        edits=edits,
        bisect=bisect,
        goes_on_unasked=yes,
        keeps_outputs=keeps_outputs,
        may_write=yes,
    )
    document = _investigate(command, tries, home, options)
    from rerail.experiments import summary_lines

    lines = summary_lines(document)
    status = answer(document, lines, as_json=as_json, good_status="confirmed")
    notify_answer(notifier, "isolate", document, lines[0], home)
    return status


def _investigate(
    command: tuple[str, ...], tries: tuple[str, ...], home: Path | None, options: Any
) -> dict[str, Any]:
    from rerail.cli._printing import console
    from rerail.experiments import Lines, Screen, investigate

    end_gently_when_terminated()
    store = store_to_write(home)
    if has_screen():
        screen = Screen(console(to_stderr=True), asker())
        with screen.live:
            return investigate(command, tries, store, options, screen)
    lines = Lines(lambda text: echo(f"rerail: {text}", err=True), asker())
    return investigate(command, tries, store, options, lines)


def _list(command: tuple[str, ...], home: Path | None, *, as_json: bool) -> int:
    """From the newest recorded run of the command, if there is one."""
    from rerail.changes import Profile, offers, read_profile
    from rerail.cli._printing import console, print_json
    from rerail.store import RunFolder, fingerprint

    wanted = fingerprint(command, str(Path.cwd()))
    run = next((s for s in store_to_read(home).summaries() if s.info.fingerprint == wanted), None)
    profile = read_profile(RunFolder(run.path)) if run else Profile()
    found = offers(profile, command, os.environ, Path.cwd())
    if as_json:
        print_json({"schema": 1, "run": run.info.id if run else None, "changes": found})
        return 0
    printer = console()
    if run is None:
        printer.print("No run of this command is on record, so little is known of what applies.")
        printer.print("Record one: rerail run -- CMD")
    for offer in found:
        told = f"tells {offer.tells}" if offer.applies else f"does not apply: {offer.why_not}"
        printer.print(f"{offer.text}\n    {told}", markup=False)
    printer.print("Any argument ('--accum 4') or variable (NAME=value) can be tried too, and your")
    printer.print("own edits (--edits) and commits (--bisect).")
    return 0
