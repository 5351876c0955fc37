"""`rerail report`: Write one self-contained HTML page about a run.

In: a run. Out: a file that opens offline, or Markdown of the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rerail.cli._options import completes, home_option, json_option, store_to_read
from rerail.cli._telling import echo
from rerail.wording import bytes_in_words


@click.command("report", epilog="Example: rerail report last --open")
@click.argument("run", default="last", shell_complete=completes("run"))
@click.option("--md", "as_markdown", is_flag=True, help="Write Markdown instead of HTML.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Where to write it; - is standard output [default: rerail-report-ID.html here].",
)
@click.option(
    "--shared", "is_shared", is_flag=True, help="Let others on this machine read the file."
)
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@home_option
@json_option
def command(
    run: str,
    as_markdown: bool,
    target: str | None,
    is_shared: bool,
    opens: bool,
    home: Path | None,
    as_json: bool,
) -> int:
    """Write one HTML page about RUN that opens offline.

    RUN is an id, a unique prefix of one, a run folder, or `last`.

    Secrets are masked in it; paths, names of people and machines, the environment and the output
    are not, so the file is yours alone to read unless you say --shared. To send something to
    somebody else, use `rerail pack`, which masks names too.
    """
    from rerail.errors import UsageError
    from rerail.platform.os_text import to_bytes
    from rerail.report import PRIVATE_MODE, SHARED_MODE, build_report, write_file

    if target == "-" and (as_json or opens):
        raise UsageError("-o - prints the report itself: it goes with neither --json nor --open")
    store = store_to_read(home)
    folder = store.resolve(run)
    document = build_report(folder, store.history(folder.info()))
    if as_markdown:
        from rerail.report.markdown import render
    else:
        from rerail.report.html import render
    text = render(document)
    if target == "-":
        sys.stdout.write(text)
        return 0
    ending = "md" if as_markdown else "html"
    path = Path(target or f"rerail-report-{folder.id}.{ending}")
    size = write_file(path, to_bytes(text), SHARED_MODE if is_shared else PRIVATE_MODE)
    _tell(path, folder.id, size, is_shared, as_json)
    if opens:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    return 0


def _tell(path: Path, run_id: str, size: int, is_shared: bool, as_json: bool) -> None:
    from rerail.cli._printing import print_json

    if as_json:
        print_json({"schema": 1, "run": run_id, "file": str(path), "bytes": size})
    else:
        readers = "Others on this machine may read it." if is_shared else "Only you may read it."
        echo(f"Wrote {path} ({bytes_in_words(size)}) about run {run_id}.")
        echo(f"{readers} Secrets are masked in it; paths, names of people and machines,")
        echo("the environment and the output are not. To send it: rerail pack " + run_id)
