"""The runs on record, newest first.

In: a store and filters. Out: a table (what each is called, how far it came, how it ended and why)
in which an investigation, a study or a restarted run is one row that unfolds; or one JSON document.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rerail import api
from rerail.api import Run, Runs
from rerail.cli._numbers import WholeRange
from rerail.cli._options import completes, home_option, json_option
from rerail.cli._printing import console, print_json
from rerail.cli._telling import echo
from rerail.platform.os_text import printable, shown
from rerail.report.run_list import NOT_WELL, Entry, entries_of, group_of
from rerail.report.run_table import BY_A_BEGINNING, SHORTEST_KEY
from rerail.store import layout

_MOST_WORDS = 5


@click.command(name="runs", epilog="Example: rerail runs --failed --label ddp -n 5")
@click.argument("which", required=False, metavar="[ID]", shell_complete=completes("run"))
@click.option("--all", "-a", "shows_all", is_flag=True, help="Unfold every row.")
@click.option("--failed", is_flag=True, help="Only runs that did not end well.")
@click.option("--live", is_flag=True, help="Only runs that are under way.")
@click.option(
    "--cause",
    metavar="CAUSE",
    shell_complete=completes("cause"),
    help="Only runs that died of it: `rerail causes`.",
)
@click.option("--label", metavar="TEXT", help="Only runs with this in their label.")
@click.option("--command", "words", metavar="TEXT", help="Only runs with this in their command.")
@click.option("-n", "count", type=WholeRange(min=1), metavar="N", help="Only the newest N.")
@home_option
@json_option
def command(
    which: str | None,
    shows_all: bool,
    failed: bool,
    live: bool,
    cause: str | None,
    label: str | None,
    words: str | None,
    count: int | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """List the runs on record, newest first.

    An investigation, a verification, a study and a run that was restarted are one row each; its ID
    shows what is inside, --all shows it for every row. Any ID names its run for the other commands;
    `last` is the newest, and of several that are under way the one of this terminal.
    """
    on_record = api.runs(home)
    entries = entries_of(on_record, on_record.home)
    if which is not None:
        entries = [_entry_named(which, entries, home)]
    wanted = _filter(on_record, entries, failed, live, cause, label, words)
    entries = _only(entries, wanted)
    _say_what_was_passed_over(on_record)
    if as_json:
        print_json(_document(on_record, entries, count))
        return
    screen = console()
    if not entries:
        for line in _nothing(on_record, failed and not (live or cause or label or words)):
            screen.print(line, markup=False, soft_wrap=True)
        return
    from rerail.report.run_table import rows, short_ids

    shown = entries[:count] if count else entries
    unfolds = shows_all or which is not None
    for row in rows(
        shown, short_ids([run.id for run in on_record], entries), screen.width, time.time(), unfolds
    ):
        screen.print(row)
    if len(shown) < len(entries):
        screen.print(f"{len(entries) - len(shown)} older ones are not shown.", markup=False)


def _entry_named(name: str, entries: Sequence[Entry], home: Path | None) -> Entry:
    """A group by its key or the beginning of one, a study by its name, or the row of a run."""
    groups = [entry for entry in entries if entry.members]
    found = [entry for entry in groups if name in (entry.id, entry.name)]
    if not found and len(name) >= SHORTEST_KEY:
        found = [e for e in groups if e.kind in BY_A_BEGINNING and e.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    run_id = api.open_run(name, home=home).id  # says what could have been typed, if there is none
    return next(entry for entry in entries if run_id in entry.runs)


def _filter(
    runs: Sequence[Run],
    entries: Sequence[Entry],
    failed: bool,
    live: bool,
    cause: str | None,
    label: str | None,
    words: str | None,
) -> set[str]:
    """Ids of the runs that pass all that was asked for."""
    leaves = {leaf.id: leaf for entry in entries for leaf in entry.members or (entry,)}
    tests: list[Callable[[Run, Entry], bool]] = []
    if failed:
        tests.append(lambda run, leaf: leaf.state in NOT_WELL)
    if live:
        tests.append(lambda run, leaf: leaf.state in ("live", "stuck"))
    if cause is not None:
        tests.append(lambda run, leaf: run.leading_cause == cause)
    if label is not None:
        tests.append(lambda run, leaf: label.lower() in (run.label or "").lower())
    if words is not None:
        tests.append(lambda run, leaf: words.lower() in leaf.command.lower())
    return {
        run.id
        for run in runs
        if run.id in leaves and all(passes(run, leaves[run.id]) for passes in tests)
    }


def _only(entries: Sequence[Entry], wanted: set[str]) -> list[Entry]:
    """A group stays while one of its runs does."""
    found = []
    for entry in entries:
        runs = tuple(run for run in entry.runs if run in wanted)
        if runs:
            members = tuple(member for member in entry.members if member.id in wanted)
            found.append(replace(entry, runs=runs, members=members))
    return found


def _document(on_record: Runs, entries: Sequence[Entry], count: int | None) -> dict[str, Any]:
    listed = {run_id for entry in entries for run_id in entry.runs}
    shown = [run for run in on_record if run.id in listed]
    shown = shown[:count] if count else shown
    document: dict[str, Any] = {"schema": 1, "home": str(on_record.home)}
    clean = _clean_trials(entries)
    document["runs"] = [_row(run, clean) for run in shown]
    document["unreadable"] = [{"id": name, "why": why} for name, why in on_record.unreadable]
    document["groups"] = [
        {
            "kind": entry.kind,
            "key": group_key(entry),
            "name": entry.name,
            "state": entry.state,
            "summary": entry.words,
            "runs": list(entry.runs),
        }
        for entry in entries
        if entry.kind != "run"
    ]
    return document


def _clean_trials(entries: Sequence[Entry]) -> dict[str, str]:
    """By id, what came of trials that were clean."""
    trials = [e for entry in entries if entry.kind in ("isolate", "verify") for e in entry.members]
    return {trial.id: trial.words for trial in trials if trial.state == "ok"}


def _row(run: Run, clean: dict[str, str]) -> dict[str, Any]:
    row = {**run.to_json(), "group": _group(run)}
    outcome = run.info.outcome
    if outcome is not None and outcome.signal and run.id in clean:
        row["headline"] = clean[run.id]  # the signal on record is the one that rerail sent
    return row


def group_key(entry: Entry) -> str:
    """A story is named by its first attempt, whose id stays; the row by its last."""
    return entry.runs[-1] if entry.kind == "restarts" else entry.id


def _group(run: Run) -> dict[str, str] | None:
    kind, key = group_of(run)
    return None if kind == "run" else {"kind": kind, "key": key}


def _nothing(on_record: Runs, only_failed: bool) -> list[str]:
    if on_record and only_failed:
        return ["No run on record has failed."]
    if on_record:
        return ["No run on record is like that."]
    return [
        f"Nothing is recorded in {shown(str(on_record.home))}.",
        "Record a run with `rerail run -- CMD`.",
    ]


def _say_what_was_passed_over(listing: Runs) -> None:
    for name, why in listing.unreadable[:_MOST_WORDS]:
        echo(f"rerail: {printable(name)} is not listed: {printable(why)}", err=True)
    if (more := len(listing.unreadable) - _MOST_WORDS) > 0:
        echo(f"rerail: {more} more cannot be read either; --json names them", err=True)
    if listing.index_problem:
        echo(f"rerail: the list was made without {layout.INDEX}: {listing.index_problem}", err=True)
