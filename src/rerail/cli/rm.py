"""Remove runs from the record; live ones are refused.

In: names of runs, or an age. Out: their folders are gone, nothing else is touched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from rerail.cli._options import completes, home_option, json_option, store_to_read
from rerail.cli._printing import print_json
from rerail.cli._telling import echo
from rerail.errors import RerailError, UnknownRun, UsageError
from rerail.platform.typed_quantities import parse_duration
from rerail.store import Store, folder_bytes
from rerail.wording import bytes_in_words, counted


@click.command(name="rm", epilog="Example: rerail rm --older-than 30d")
@click.argument("runs", nargs=-1, metavar="RUN...", shell_complete=completes("run"))
@click.option("--older-than", metavar="AGE", help="Runs that began longer ago than 12h, 30d, 8w.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@home_option
@json_option
def command(
    runs: tuple[str, ...], older_than: str | None, yes: bool, home: Path | None, as_json: bool
) -> int:
    """Remove runs from the record for good.

    A run that is still being recorded is refused and the others are removed. On a terminal you are
    asked first; elsewhere --yes is needed.
    """
    store = store_to_read(home)
    chosen = _choose(store, runs, older_than)
    if chosen and not yes:
        _confirm(chosen, store)
    removed: list[str] = []
    gone: list[str] = []
    refused: list[dict[str, str]] = []
    freed = 0
    for run_id in chosen:
        try:
            size = store.remove(str(store.runs / run_id))
        except UnknownRun:
            size = None
        except RerailError as error:
            refused.append({"id": run_id, "why": error.message})
            echo(f"rerail: {error.message}", err=True)
            continue
        if size is None:
            gone.append(run_id)
        else:
            removed.append(run_id)
            freed += size
    if as_json:
        document = {"removed": removed, "gone": gone, "refused": refused, "freed_bytes": freed}
        print_json({"schema": 1, **document})
        return 1 if refused else 0
    if removed or not refused:
        echo(f"{counted(len(removed), 'run')} removed, {bytes_in_words(freed)} freed.")
    if gone:
        echo(f"{counted(len(gone), 'run')} had been removed by somebody else meanwhile.")
    return 1 if refused else 0


def _choose(store: Store, names: Sequence[str], older_than: str | None) -> dict[str, int]:
    """Ids and sizes. A run that cannot be read can be removed by its name, not by its age."""
    if not names and older_than is None:
        raise UsageError(
            "no run to remove was named", "Name one, as in `rerail rm last`, or give --older-than."
        )
    chosen = {}
    for name in names:
        path = store.resolve(name).path
        if path.parent != store.runs:
            raise UsageError(f"{path} is not in {store.home}", "Give its store with --home.")
        chosen[path.name] = folder_bytes(path)
    if older_than is not None:
        before = time.time() - parse_duration(older_than, needs_unit=True)
        for summary in store.summaries():
            if summary.info.started_unix < before and summary.info.state != "running":
                chosen[summary.path.name] = summary.size_bytes
    return chosen


def _confirm(chosen: dict[str, int], store: Store) -> None:
    size = bytes_in_words(sum(chosen.values()))
    what = next(iter(chosen)) if len(chosen) == 1 else counted(len(chosen), "run")
    if not sys.stdin.isatty():
        raise UsageError(f"not removed: {what} ({size})", "Type --yes to remove without asking.")
    click.confirm(f"Remove {what} ({size}) from {store.home} for good?", abort=True, err=True)
