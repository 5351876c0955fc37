"""`rerail pack`: Write one zip about a run to send to a colleague, secrets removed.

In: a run. Out: a zip, or with --dry-run the list of what would go in and what was masked.
"""

from __future__ import annotations

from pathlib import Path

import click

from rerail.cli._options import completes, home_option, json_option, store_to_read
from rerail.cli._telling import echo
from rerail.wording import bytes_in_words


@click.command("pack", epilog="Example: rerail pack last --dry-run")
@click.argument("run", default="last", shell_complete=completes("run"))
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write it [default: rerail-ID.zip here].",
)
@click.option("--dry-run", is_flag=True, help="Only list what goes in and what is masked.")
@home_option
@json_option
def command(run: str, target: Path | None, dry_run: bool, home: Path | None, as_json: bool) -> int:
    """Write one zip about RUN to send to a colleague, secrets removed.

    RUN is an id, a unique prefix of one, a run folder, or `last`.
    """
    from rerail.diagnosis import answer_on_record
    from rerail.report import pack

    store = store_to_read(home)
    folder = store.resolve(run)
    package = pack(folder, answer_on_record(folder, store.history(folder.info())))
    path = target or Path(f"rerail-{folder.id}.zip")
    size = None if dry_run else package.write(path)
    if as_json:
        from rerail.cli._printing import print_json

        print_json(
            {
                "schema": 1,
                "run": folder.id,
                "file": None if dry_run else str(path),
                "bytes": size,
                "files": [{"name": name, "bytes": len(data)} for name, data in package.files],
                "masked": package.masked,
            }
        )
        return 0
    for name, data in package.files:
        echo(f"  {name:<22}{bytes_in_words(len(data)):>10}")
    if package.masked:
        echo("Masked:")
        for kind, count in package.masked.items():
            echo(f"  {kind:<34}{count:>7} {'place' if count == 1 else 'places'}")
    else:
        echo("Nothing had to be masked.")
    if size is None:
        echo(f"Nothing was written. Without --dry-run: {path}")
    else:
        echo(f"Wrote {path} ({bytes_in_words(size)}) about run {folder.id}.")
    return 0
