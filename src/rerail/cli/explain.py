"""Say why it died: a recorded run, or any log files.

Ends with 0 when no cause was found, 1 when one was, 2 when something could not be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail.cli._options import home_option, json_option, store_to_read
from rerail.cli._printing import print_json, print_json_line
from rerail.errors import RerailError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis
    from rerail.store import RunFolder, Store

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
        return _from_stream().to_json()
    paths = [Path(name) for name in what]
    if all(_is_log(path) or _is_log_folder(path) for path in paths):
        return _from_files(paths).to_json()
    if len(what) > 1:
        missing = next(p for p in paths if not _is_log(p))
        raise UsageError(
            f"{missing} is not a file; several names must all be log files of one job.",
            "Name one run, or only files.",
        )
    store = store_to_read(home)
    folder = store.resolve(what[0])
    return {**_from_run(folder, store), "run": folder.id}


def _is_log(path: Path) -> bool:
    """A file, or a pipe that the user named: `rerail explain <(kubectl logs pod)`."""
    try:
        return path.is_file() or path.is_fifo()
    except (OSError, ValueError):
        return False  # too long for a name, or a zero byte in it


def _is_log_folder(path: Path) -> bool:
    """A folder of logs; a recorded run and a store of runs are something else."""
    try:
        is_run = (path / "run.json").exists() or (path / "run.json").is_symlink()
        return path.is_dir() and not is_run and not (path / "runs").is_dir()
    except (OSError, ValueError):
        return False


def _from_stream() -> Diagnosis:
    from rerail.diagnosis import explain_stream

    return explain_stream(sys.stdin.buffer, "standard input")


def _from_files(paths: list[Path]) -> Diagnosis:
    from rerail.diagnosis import explain_logs

    files: list[Path] = []
    for path in paths:
        files += sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    if not files:
        raise UnreadableInput(f"{paths[0]} holds no files.", "Name a log file or a run.")
    return explain_logs(files)


def _from_run(folder: RunFolder, store: Store) -> dict[str, Any]:
    from rerail.diagnosis import explain_run

    return explain_run(folder, store.history(folder.info()), keeps=True).to_json()


def _show(document: dict[str, Any]) -> None:
    from rerail.report import terminal

    terminal.show(document, sys.stdout)
