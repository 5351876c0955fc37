"""The runs on record, newest first.

In: a store and filters. Out: a table (when, how long, how each ended and why), or one JSON
document.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail import api
from rerail.api import Run, Runs
from rerail.cli._options import home_option, json_option
from rerail.cli._printing import console, print_json
from rerail.records import RunInfo
from rerail.store import layout
from rerail.wording import seconds_in_words

_MOST_WORDS = 5

if TYPE_CHECKING:
    from rich.text import Text


@click.command(name="runs", epilog="Example: rerail runs --failed -n 5")
@click.option("--failed", is_flag=True, help="Only runs that did not end well.")
@click.option("-n", "count", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@home_option
@json_option
def command(failed: bool, count: int | None, home: Path | None, as_json: bool) -> None:
    """List the runs on record, newest first.

    Any id, or the beginning of one, names its run for the other commands; `last` is the newest.
    """
    on_record = api.runs(home)
    found = [run for run in on_record if not failed or run.has_failed]
    shown = found[:count] if count else found
    _say_what_was_passed_over(on_record)
    if as_json:
        document: dict[str, Any] = {"schema": 1, "home": str(on_record.home)}
        document["runs"] = [run.to_json() for run in shown]
        document["unreadable"] = [{"id": name, "why": why} for name, why in on_record.unreadable]
        print_json(document)
        return
    screen = console()
    if not shown:
        if failed and on_record:
            screen.print("No run on record has failed.", markup=False)
        else:
            screen.print(f"Nothing is recorded in {on_record.home}.", markup=False, soft_wrap=True)
            screen.print("Record a run with `rerail run -- CMD`.", markup=False)
        return
    for row in _rows(shown, screen.width):
        screen.print(row)
    if len(shown) < len(found):
        screen.print(f"{len(found) - len(shown)} older ones are not shown.", markup=False)


def _say_what_was_passed_over(listing: Runs) -> None:
    for name, why in listing.unreadable[:_MOST_WORDS]:
        click.echo(f"rerail: {_printable(name)} is not listed: {_printable(why)}", err=True)
    if (more := len(listing.unreadable) - _MOST_WORDS) > 0:
        click.echo(f"rerail: {more} more cannot be read either; --json names them", err=True)
    if listing.index_problem:
        click.echo(
            f"rerail: the list was made without {layout.INDEX}: {listing.index_problem}", err=True
        )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def how_it_ended(info: RunInfo) -> str:
    if info.state != "ended":
        return info.state
    outcome = info.outcome
    if outcome is None:
        return "unknown"
    if outcome.kind == "signal":
        return outcome.signal or "signal"
    if outcome.kind == "exit":
        return f"exit {outcome.exit_code}"
    return outcome.kind


def _rows(runs: Sequence[Run], width: int) -> list[Text]:
    """Columns as wide as what is in them; the command gets what is left of the width."""
    from rich.text import Text

    now = time.time()
    cells = [["run", "ago", "lasted", "ended", "cause", "command"]]
    cells += [_cells(run, now) for run in runs]
    if not any(row[4] for row in cells[1:]):
        for row in cells:
            del row[4]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]) - 1)]
    rows = []
    for i, row in enumerate(cells):
        line = Text(style="bold" if i == 0 else "", no_wrap=True)
        for column, column_width in enumerate(widths):
            is_bad = i > 0 and column == 3 and runs[i - 1].has_failed
            text = row[column]
            padded = text.rjust(column_width) if column in (1, 2) else text.ljust(column_width)
            line.append(f"{padded}  ", style="red" if is_bad else "")
        line.append(row[-1])
        line.truncate(width, overflow="ellipsis")
        rows.append(line)
    return rows


def _cells(run: Run, now: float) -> list[str]:
    from rerail.report.live import one_line

    info = run.info
    elapsed = now - info.started_unix if info.state == "running" else info.elapsed_seconds
    program, *arguments = info.command or [""]
    named = f"{one_line([run.label])}: " if run.label else ""
    return [
        run.id,
        ago(now - info.started_unix),
        "" if elapsed is None else seconds_in_words(elapsed),
        how_it_ended(info),
        run.leading_cause or "",
        named + one_line([program.rpartition("/")[2] or program, *arguments]),
    ]


def ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"
