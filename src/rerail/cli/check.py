"""Before the run: what in this environment, and in this command's memory needs, will kill it.

Ends with 1 when something fatal stands, 0 otherwise, 2 for wrong usage or an unreadable file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rerail.cli._numbers import Seconds, WholeRange
from rerail.cli._options import json_option
from rerail.cli._telling import echo
from rerail.errors import UsageError
from rerail.platform.signal_names import signal_name

if TYPE_CHECKING:
    from rerail.preflight import Check, Finding

_DATA_FILES = (".npz", ".npy")


@click.command(
    name="check",
    context_settings={"allow_interspersed_args": False},
    epilog="Examples: rerail check; rerail check -- python train.py --batch-size 32;"
    " rerail check data.npz",
)
@click.option(
    "--steps",
    type=WholeRange(min=1),
    metavar="N",
    help="Optimizer steps of the dry run [default: 3, and up to 12 more while they are quick].",
)
@click.option(
    "--seconds",
    type=Seconds(1),
    default=120.0,
    show_default=True,
    help="End a dry run after this long, whatever it has seen.",
)
@click.option("--no-run", is_flag=True, help="Look at the environment of CMD; do not run it.")
@click.option(
    "--what-if",
    "what_ifs",
    multiple=True,
    metavar="CHANGE",
    help="Also plan the memory with '--batch-size 64'. Repeat it.",
)
@click.option("--fix", is_flag=True, help="Write the safe changes into a shell snippet.")
@json_option
@click.argument("what", nargs=-1, type=click.UNPROCESSED, metavar="[FILE.npz... | -- CMD...]")
def command(
    steps: int | None,
    seconds: float,
    no_run: bool,
    what_ifs: tuple[str, ...],
    fix: bool,
    as_json: bool,
    what: tuple[str, ...],
) -> int:
    """Check the environment, and CMD, before the run.

    Without CMD the active Python environment is looked at; nothing of it is imported. CMD itself
    is run for a few steps, then ended: files that were there before are not written over, and new
    ones are removed. FILE.npz: does NumPy map or load it, and what does it take in memory?
    """
    if what and all(word.endswith(_DATA_FILES) for word in what):
        return _answer_files(what, as_json=as_json)
    if what_ifs and (no_run or not what):
        raise UsageError(
            "--what-if needs a dry run of a command",
            "As in: rerail check --what-if '--batch-size 64' -- python train.py",
        )
    from rerail.preflight import Stop, Stopped, check

    stop = Stop(_say_that_it_ends)
    try:
        with stop.listening():
            found = check(
                what,
                _cwd(),
                dict(os.environ),
                runs=not no_run,
                steps=steps,
                most_seconds=seconds,
                what_ifs=what_ifs,
                say=_say,
                stop=stop,
            )
    except Stopped as stopped:
        _end_by(stopped.signal_number)
    document = found.to_json()
    if fix:
        document["fix"] = _write_fix(found.findings)
    _tell(found, document, as_json=as_json)
    return 1 if found.is_fatal else 0


def _say(text: str) -> None:
    echo(f"rerail: {text}", err=True)


def _say_that_it_ends(signal_number: int) -> None:
    name = signal_name(signal_number)
    # Not click.echo: a signal can come while it is in the middle of another line.
    os.write(2, f"rerail: {name}: ending what was started ...\n".encode())


def _end_by(signal_number: int) -> NoReturn:
    from rerail.cli.run import end_as

    _say("check was ended before its answer; nothing of the dry run is left behind")
    end_as(None, signal_number)


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD", "/"))


def _write_fix(findings: list[Finding]) -> str | None:
    from rerail.preflight import fixes

    text = fixes.snippet(findings)
    if not text:
        _say("nothing to write: no safe change would help")
        return None
    path = fixes.write(text, _cwd())
    _say(f"the safe changes are in {path}; apply them: source {path}")
    return str(path)


def _tell(found: Check, document: dict[str, Any], *, as_json: bool) -> None:
    from rich.text import Text

    from rerail.cli._printing import console, print_json
    from rerail.preflight import view

    if as_json:
        print_json(document)
        return
    printer = console()
    lines = view.finding_lines(found.findings, printer.width)
    if found.plan is not None:
        lines += view.plan_lines(found.plan, found.what_ifs, printer.width)
    for style, front, text in lines:
        printer.print(Text.assemble((front, style), text), soft_wrap=True)
    printer.print()
    printer.print(view.summary(found.findings), markup=False)
    sys.stdout.flush()


def _answer_files(names: tuple[str, ...], *, as_json: bool) -> int:
    """One line per file: how it is stored, whether NumPy maps it, what it takes in memory."""
    from rerail.cli._printing import print_json
    from rerail.preflight import active_interpreter, array_file, limits
    from rerail.recorder import surroundings

    around = {
        "memory": surroundings.describe_memory(),
        "cgroups": surroundings.describe_cgroups(),
    }
    room = limits.memory_room(around)
    active = active_interpreter(_cwd(), os.environ)
    interpreters = [active.path, sys.executable] if active else [sys.executable]
    findings, files = [], []
    for name in names:
        file = array_file.read_array_file(Path(name))
        file = array_file.measure(file, interpreters, room[0] if room else None)
        files.append(file)
        findings.append(file.finding(room[0] if room else None))
    if as_json:
        print_json(
            {
                "schema": 1,
                "findings": [finding.to_json() for finding in findings],
                "memory": None,
                "files": [file.to_json() for file in files],
            }
        )
    else:
        for finding in findings:
            echo(finding.title)
            for line in (finding.why, *(f"→ {action}" for action in finding.do)):
                if line:
                    echo(f"  {line}")
    return 1 if any(finding.level == "fatal" for finding in findings) else 0
