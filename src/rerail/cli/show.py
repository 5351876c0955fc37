"""One run on one screen, live or over.

In: a run's name. Out: how it stands, progress, loss, memory, processes and last output; drawn once,
or with --follow redrawn until the run ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rerail import api
from rerail.cli._options import completes, home_option, json_option
from rerail.cli._printing import console, print_json, print_json_line
from rerail.cli._telling import echo
from rerail.errors import UsageError
from rerail.store import RunFolder

if TYPE_CHECKING:
    from rerail.live import Follower, LiveView

REFRESH_SECONDS = 0.5
LINE_SECONDS = 5.0  # between lines where there is no screen


@click.command(name="show", epilog="Example: rerail show last --follow")
@click.argument("run", default="last", shell_complete=completes("run"))
@click.option("--follow", "-f", is_flag=True, help="Go on showing it until it ends.")
@click.option("--rank", type=int, metavar="R", help="One rank: its end, collectives, output.")
@home_option
@json_option
def command(run: str, follow: bool, rank: int | None, home: Path | None, as_json: bool) -> None:
    """Show one run, live or over: an id, the beginning of one, a folder, or `last`.

    With --follow --json one document is printed per line, the last one when the run has ended.
    """
    folder = RunFolder(api.open_run(run, home=home).folder)
    if rank is not None:
        _print_rank(folder, rank, as_json)
    elif as_json:
        _print_json(folder, follow)
    elif follow and sys.stdout.isatty():
        _follow_on_screen(folder)
    else:
        if follow:
            _follow_in_lines(folder)
        _print_once(folder)


def _view(follower: Follower) -> LiveView:
    from rerail.live import build
    from rerail.report.stopped_trial import calm

    return build(calm(follower.folder.path, follower.look()))


def _print_once(folder: RunFolder) -> None:
    from rerail.live import Follower
    from rerail.report.live_screen import render

    screen = console()
    height = screen.height - 1 if screen.is_terminal else 24
    screen.print(render(_view(Follower(folder)), screen.width, max(16, height)))
    _print_stacks(folder)


def _print_rank(folder: RunFolder, rank: int, as_json: bool) -> None:
    from rerail.evidence import read_material
    from rerail.report import rank_page

    run = read_material(folder)
    story = rank_page.story_of(run, rank)
    if story is None:
        known = ", ".join(str(each) for each in rank_page.ranks_on_record(run)) or "none"
        raise UsageError(
            f"the record has no rank {rank}", f"Ranks on record: {known}. See `rerail show`."
        )
    logs = rank_page.logs_of(run, story)
    if as_json:
        print_json(rank_page.rank_document(story, folder.output(), logs))
        return
    screen = console()
    for line in rank_page.rank_lines(story, folder.output(), logs):
        screen.print(line, markup=False, no_wrap=True, overflow="ellipsis", crop=True)


def _print_stacks(folder: RunFolder) -> None:
    """Of a run that stood still: below the screen, however long it is."""
    if not folder.stalls():
        return
    from rerail.evidence import read_material
    from rerail.report import stall_stack_lines

    screen = console()
    for line in ["", *stall_stack_lines(read_material(folder))]:
        screen.print(line, markup=False, no_wrap=True, overflow="ellipsis", crop=True)


def _follow_on_screen(folder: RunFolder) -> None:
    from rich.live import Live

    from rerail.live import Follower
    from rerail.report.live_screen import render

    screen, follower = console(), Follower(folder)
    with Live(console=screen, auto_refresh=False, screen=True) as live:
        while True:
            view = _view(follower)
            live.update(render(view, screen.width, screen.height), refresh=True)
            if view.state != "running":
                break
            time.sleep(REFRESH_SECONDS)
    _print_once(folder)


def _follow_in_lines(folder: RunFolder) -> None:
    from rerail.live import Follower
    from rerail.report.live_screen import status_line

    follower = Follower(folder)
    printed_at = float("-inf")
    while True:
        view = _view(follower)
        if view.state != "running":
            return
        if time.monotonic() - printed_at >= LINE_SECONDS:
            echo(status_line(view))
            printed_at = time.monotonic()
        time.sleep(REFRESH_SECONDS)


def _print_json(folder: RunFolder, follow: bool) -> None:
    from rerail.live import Follower
    from rerail.store import encode

    follower = Follower(folder)
    while True:
        view = _view(follower)
        document = {"schema": 1, **encode(view)}
        if not follow:
            print_json(document)
            return
        print_json_line(document)
        if view.state != "running":
            return
        time.sleep(REFRESH_SECONDS)
