"""Say why it died: a recorded run, or any log files.

Ends with 0 when no cause was found, 1 when one was, 2 when something could not be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rerail import api
from rerail.cli._options import home_option, json_option
from rerail.cli._printing import print_json, print_json_line
from rerail.errors import RerailError

UNREADABLE = 2


@click.command(name="explain", epilog="Examples: rerail explain last; rerail explain slurm-*.out")
@click.argument("what", nargs=-1, metavar="[RUN | FILE...]")
@click.option("--each", is_flag=True, help="Explain every file by itself, not as ranks of one job.")
@home_option
@json_option
def command(what: tuple[str, ...], each: bool, home: Path | None, as_json: bool) -> int:
    """Why it died: a recorded run (id, folder or `last`), log files, or - for standard input.

    Several files together are ranks or nodes of one job: the one that failed first is found, and
    what the others say is its echo.
    """
    if each:
        return _each(what, home, as_json)
    document = _document(what or ("last",), home)
    if as_json:
        print_json(document)
    else:
        _show(document)
    return 1 if document["causes"] else 0


def _each(what: tuple[str, ...], home: Path | None, as_json: bool) -> int:
    """One answer per file, in order; a file that cannot be read costs its own answer only."""
    status = 0
    for at, name in enumerate(what):
        try:
            document = _document((name,), home)
            status = max(status, 1 if document["causes"] else 0)
        except RerailError as error:
            click.echo(f"rerail: {error.message}", err=True)
            document = _unread(error)
            status = UNREADABLE
        if as_json:
            print_json_line(document)
        else:
            click.echo(f"{chr(10) if at else ''}== {name}")
            _show(document)
    return status


def _unread(error: RerailError) -> dict[str, Any]:
    from rerail.diagnosis import Diagnosis
    from rerail.records import Outcome

    document = Diagnosis(Outcome("unknown", error.message)).to_json()
    return {**document, "error": error.message}


def _document(what: tuple[str, ...], home: Path | None) -> dict[str, Any]:
    if what == ("-",):
        return api.explain(sys.stdin.buffer).to_json()
    return api.explain(what, home=home).to_json()


def _show(document: dict[str, Any]) -> None:
    from rerail.report import terminal

    terminal.show(document, sys.stdout)
