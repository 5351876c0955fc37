"""The catalogue: every cause, its mechanism, proof and remedies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rerail import api
from rerail.catalogue import causes_with_words
from rerail.cli._options import completes, json_option
from rerail.cli._printing import print_json
from rerail.cli._telling import echo
from rerail.diagnosis import unknown_cause
from rerail.errors import UsageError

if TYPE_CHECKING:
    from rerail.catalogue import Cause


@click.command(
    name="causes", epilog="Examples: rerail causes openmp-duplicate-runtime; rerail causes oom"
)
@click.argument(
    "cause_id", required=False, metavar="[ID | WORD]", shell_complete=completes("cause")
)
@click.option(
    "--new",
    type=(str, str, str),
    metavar="ID FAMILY TITLE",
    help="Start the file of a new cause, in a source tree of rerail.",
)
@json_option
def command(cause_id: str | None, new: tuple[str, str, str] | None, as_json: bool) -> None:
    """List the causes that rerail knows, or those with WORD in id or title, or show one."""
    if new is not None:
        if cause_id is not None or as_json:
            raise UsageError("--new goes with neither a cause nor --json")
        _start(*new)
        return
    catalogue = {cause.id: cause for cause in api.causes()}
    if cause_id is None:
        if as_json:
            print_json({"schema": 1, "causes": [_as_json(cause) for cause in catalogue.values()]})
        else:
            _print_list(list(catalogue.values()))
        return
    if cause_id not in catalogue and (found := causes_with_words(cause_id)):
        if as_json:
            print_json({"schema": 1, "causes": [_as_json(cause) for cause in found]})
        else:
            width = max(len(cause.id) for cause in found)
            for cause in found:
                echo(_in_one_line(f"{cause.id:{width}}  {cause.title}"))
        return
    if cause_id not in catalogue:
        raise unknown_cause(cause_id)
    if as_json:
        print_json({"schema": 1, **_as_json(catalogue[cause_id])})
    else:
        from rerail.report.cause_page import render

        echo(render(catalogue[cause_id]))


def _start(cause_id: str, family: str, title: str) -> None:
    from rerail.catalogue import write_new_cause

    path = write_new_cause(cause_id, family, title)
    echo(f"Fill in {path}")
    echo("Until then the catalogue is refused; `rerail causes` names the lines that are left.")
    echo("Then: scripts/write-cause-pages, and pytest tests/catalogue")


def _print_list(catalogue: Sequence[Cause]) -> None:
    from rerail.catalogue import FAMILIES

    width = max(len(cause.id) for cause in catalogue)
    family = None
    for cause in catalogue:
        if cause.family != family:
            echo(f"{chr(10) if family else ''}{FAMILIES[cause.family]}")
            family = cause.family
        echo(_in_columns(f"  {cause.id:{width}}  ", cause.title))


def _in_columns(label: str, title: str) -> str:
    import textwrap

    return textwrap.fill(title, 80, initial_indent=label, subsequent_indent=" " * len(label))


def _in_one_line(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79].rstrip()}…"


def _as_json(cause: Cause) -> dict[str, Any]:
    document = asdict(cause)
    for signature in document["signatures"]:
        del signature["literals"]
    return document
