"""An ablation: every configuration recorded, none lost, a table at the end.

`rerail study FILE` runs or continues a study. Ends with 0 when every cell is done, 1 when one is
not, 2 for a wrong file or usage, 130 after Ctrl-C; started again it goes on.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail.cli._experiments import has_screen
from rerail.cli._numbers import WholeRange
from rerail.cli._options import (
    home_option,
    json_option,
    notify_options,
    say_notices,
    store_to_write,
)
from rerail.cli._telling import echo
from rerail.errors import UsageError

if TYPE_CHECKING:
    from rerail.notify import Notifier
    from rerail.study import Study
    from rerail.study.table import StudyTable


class _StudyGroup(click.Group):
    """`rerail study FILE` is `rerail study run FILE`, which nobody has to type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if is_named or not args else ["run", *args])


@click.group(
    name="study",
    cls=_StudyGroup,
    subcommand_metavar="FILE | COMMAND [ARGS]...",
    epilog="Example: rerail study ablation.toml --jobs 2",
)
def command() -> None:
    """Run a study FILE: every configuration of a grid as a recorded run.

    A cell is done when its files are there, whole and collected. One that dies is explained,
    and tried again if its cause says that this can help. Killed at any moment, the study goes
    on from there when it is started again.
    """


def _file_argument(function: Any) -> Any:
    return click.argument("file", type=click.Path(path_type=Path), metavar="FILE", required=True)(
        function
    )


@command.command("run", epilog="Example: rerail study ablation.toml --jobs 2")
@_file_argument
@click.option("--jobs", type=WholeRange(min=1), metavar="N", help="Cells at once.")
@click.option(
    "--scheduler",
    default="local",
    metavar="NAME",
    help="Where cells run: local, or an existing ray cluster [default: local].",
)
@click.option("--only", multiple=True, metavar="CELL", help="Only this cell. Repeat it.")
@click.option("--again", is_flag=True, help="Also try cells that were given up.")
@click.option("--quiet", "-q", "is_quiet", is_flag=True, help="Only the table at the end.")
@notify_options
@home_option
@json_option
def run(
    file: Path,
    jobs: int | None,
    scheduler: str,
    only: tuple[str, ...],
    again: bool,
    is_quiet: bool,
    home: Path | None,
    as_json: bool,
    notifier: Notifier | None,
) -> int:
    """Run or continue the study in FILE (`run` need not be typed)."""
    from rerail.study import Silent, StudyOptions, load_study, run_study
    from rerail.study.table import build_table

    study = load_study(file)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: keep everything
    options = StudyOptions(jobs, scheduler, only, again)
    watcher = Silent() if is_quiet else _Lines()
    try:
        states = run_study(study, store_to_write(home), options, watcher)
    except KeyboardInterrupt:
        if not has_screen():
            _notify(notifier, file, study, None)
        raise
    table = build_table(study, states)
    _write_report(study, table)
    _show(table, as_json=as_json)
    if not as_json:
        _say_next(file, study, table)
    _notify(notifier, file, study, table)
    return 0 if table.is_complete else 1


def _notify(notifier: Notifier | None, file: Path, study: Study, table: StudyTable | None) -> None:
    """How the study stands at its end; without a table somebody has stopped it."""
    if notifier is None:
        return
    status, headline = "stopped", f"{study.name} was stopped; started again it goes on"
    following, details = ["rerail", "study", str(file)], list[str]()
    if table is not None:
        failed, total = table.count("failed"), len(table.cells)
        status = "failed" if failed else "done" if table.is_complete else "incomplete"
        headline = f"{study.name}: {table.count('done')} of {total} cells are done"
        headline += f", {failed} failed" if failed else ""
        details = [f"{death.cell}: {death.cause_in_words}" for death in table.deaths[:3]]
        following = ["rerail", "study", *([] if failed else ["report"]), str(file)]
        following += ["--again"] if failed else []
    notices = notifier.experiment_ended(
        "study",
        headline,
        event="death" if status == "failed" else "end",
        status=status,
        next_command=following,
        details=details,
        keep_in=[study.folder],
    )
    say_notices(notices)


@command.command("new", context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("study.toml"),
    metavar="FILE",
    help="Where to write it [default: study.toml].",
)
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
def new(target: Path, command_words: tuple[str, ...]) -> None:
    """Write a first, commented study file from a command."""
    from rerail.platform.os_text import to_bytes
    from rerail.platform.user_files import advice_on, create_user_file
    from rerail.study import write_starter

    if not command_words:
        raise UsageError(
            "there is no command to make a study of",
            "Type it after --, as in: rerail study new -- python train.py --lr 0.1",
        )
    text = write_starter(command_words, target.absolute().parent)
    try:
        create_user_file(target, to_bytes(text))
    except FileExistsError:
        raise UsageError(
            f"{target} is there already: not overwritten", "Name another: -o FILE"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror}", advice_on(error, target, "-o FILE")
        ) from None
    echo(f"{target} is written. Give it axes, then: rerail study {target}")


@command.command("status", epilog="Example: rerail study status ablation.toml")
@_file_argument
@json_option
def status(file: Path, as_json: bool) -> int:
    """How the study in FILE stands, also while it runs."""
    table = _table_of(file)[1]
    _show(table, as_json=as_json, is_short=True)
    return 0 if table.is_complete else 1


@command.command("report", epilog="Example: rerail study report ablation.toml --csv table.csv")
@_file_argument
@click.option(
    "--html", "html_to", metavar="FILE", help="Write the page there [default: in its folder]."
)
@click.option(
    "--csv", "csv_to", metavar="FILE", help="Write the table as CSV; - is standard output."
)
@json_option
def report(file: Path, html_to: str | None, csv_to: str | None, as_json: bool) -> int:
    """Show the table of the study, and write it as HTML and CSV."""
    study, table = _table_of(file)
    if csv_to == "-":
        if as_json:
            raise UsageError("--csv - and --json both print on standard output", "Choose one.")
        from rerail.study.table import to_csv

        sys.stdout.write(to_csv(table))
        return 0
    written = _write_report(study, table, html_to, csv_to)
    _show(table, as_json=as_json)
    for path in written:
        echo(f"written: {path}", err=True)
    return 0 if table.is_complete else 1


class _Lines:
    """Tells a person on standard error, one line at a time."""

    def said(self, text: str) -> None:
        echo(f"rerail: {text}", err=True)

    def cell(self, name: str, text: str) -> None:
        echo(f"rerail: {name}: {text}", err=True)


def _table_of(file: Path) -> tuple[Study, StudyTable]:
    from rerail.study import NAME, is_running, load_study, read_states
    from rerail.study.table import build_table

    study = load_study(file)
    if not (study.folder / NAME).exists():
        raise UsageError(
            f"the study in {file} has not been started", f"Start it: rerail study {file}"
        )
    states = read_states(study)
    if not is_running(study.folder):
        for state in states.values():
            if state.state == "running":
                state.state = "waiting"  # the study was killed; started again it goes on
    return study, build_table(study, states)


def _show(table: StudyTable, *, as_json: bool, is_short: bool = False) -> None:
    from rerail.cli._printing import console, print_json
    from rerail.study import terminal
    from rerail.study.table import to_json

    if as_json:
        print_json(to_json(table))
    elif is_short:
        terminal.show_cells(table, console())
    else:
        terminal.show(table, console())


def _write_report(
    study: Study, table: StudyTable, html_to: str | None = None, csv_to: str | None = None
) -> list[Path]:
    """The page and the CSV, both replaced whole; they can be made again at any time."""
    from rerail.platform.user_files import advice_on, write_user_file
    from rerail.study.html import render
    from rerail.study.table import to_csv

    html = Path(html_to) if html_to else study.folder / "report.html"
    csv = Path(csv_to) if csv_to else study.folder / "table.csv"
    outputs = ((html, render(table), "--html FILE"), (csv, to_csv(table), "--csv FILE"))
    for path, text, option in outputs:
        try:
            write_user_file(path, text.encode("utf-8", "replace"), 0o600)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", advice_on(error, path, option)
            ) from None
    return [html, csv]


def _say_next(file: Path, study: Study, table: StudyTable) -> None:
    if table.count("failed"):
        echo(f"Try those that failed once more: rerail study {file} --again", err=True)
    if changed := [state.cell.name for state in table.cells if state.damage]:
        folder = study.results / changed[0]
        echo(f"To have {changed[0]} run again, move {folder} away.", err=True)
    echo(f"The page with plots is {study.folder / 'report.html'}", err=True)
