"""Before the run: what in this environment, and in this command's memory needs, will kill it.

Ends with 1 when something fatal stands, 0 otherwise, 2 for wrong usage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail.cli._options import home_option, json_option

if TYPE_CHECKING:
    from rerail.preflight.finding import Finding

_DATA_FILES = (".npz", ".npy")


@click.command(
    name="check",
    context_settings={"allow_interspersed_args": False},
    epilog="Examples: rerail check -- python train.py --batch-size 32; rerail check data.npz",
)
@home_option
@click.option("--fix", is_flag=True, help="Write the safe changes into a shell snippet.")
@json_option
@click.argument("what", nargs=-1, type=click.UNPROCESSED, metavar="[FILE.npz... | -- CMD...]")
def command(home: Path | None, fix: bool, as_json: bool, what: tuple[str, ...]) -> int:
    """Check the environment, and CMD, before the run.

    Without CMD the active Python environment is checked; nothing of it is imported. With FILE.npz:
    whether NumPy maps or loads it, and what it takes in memory.
    """
    from rerail.preflight import audit

    found = audit(what, _cwd(), dict(os.environ))
    document: dict[str, Any] = {
        "schema": 1,
        "command": list(what),
        "findings": [finding.to_json() for finding in found.findings],
        "memory": None,
    }
    if fix:
        document["fix"] = _write_fix(found.findings, is_quiet=as_json)
    _tell(found.findings, document, as_json=as_json)
    return 1 if found.is_fatal else 0


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD", "/"))


def _write_fix(findings: list[Finding], *, is_quiet: bool) -> str | None:
    from rerail.preflight import fixes

    text = fixes.snippet(findings)
    if not text:
        click.echo("rerail: nothing to write: no safe change would help", err=True)
        return None
    path = fixes.write(text, _cwd())
    click.echo(f"rerail: the safe changes are in {path}; apply them: source {path}", err=True)
    return str(path)


def _tell(findings: list[Finding], document: dict[str, Any], *, as_json: bool) -> None:
    from rich.text import Text

    from rerail.cli._printing import console, print_json
    from rerail.preflight import view

    if as_json:
        print_json(document)
        return
    printer = console()
    for style, front, text in view.finding_lines(findings, printer.width):
        printer.print(Text.assemble((front, style), text), soft_wrap=True)
    printer.print()
    printer.print(view.summary(findings), markup=False)
    sys.stdout.flush()
