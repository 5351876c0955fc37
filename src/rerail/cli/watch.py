"""Watch runs live: progress, memory, processes and warnings on a screen with keys.

Ends with 0 when the user leaves, 2 where there is no terminal or Textual is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click

from rerail import api
from rerail.cli._options import completes, home_option
from rerail.errors import UsageError
from rerail.store import RunFolder


@click.command(name="watch", epilog="Example: rerail watch last")
@click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=completes("run"))
@home_option
def command(names: tuple[str, ...], home: Path | None) -> int:
    """Watch runs while they live; without a name, choose from what lives and what just died.

    RUN is an id, the beginning of one, a folder, a label, or `last`; of several, tab shows the
    next. Only the record is read: k, which stops a run, asks first. ? shows the keys.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "rerail watch draws on a terminal, and there is none",
            "`rerail show last --follow` prints a line every few seconds instead.",
        )
    if importlib.util.find_spec("textual") is None:
        raise UsageError(
            "rerail watch needs Textual, which is not installed",
            f"Type: {sys.executable} -m pip install 'rerail[watch]'\n"
            "Without it, `rerail show last --follow` shows one run.",
        )
    folders = [RunFolder(api.open_run(name, home=home).folder) for name in names]
    from rerail.platform.low_priority import make_room_for_others
    from rerail.watch import run_app

    make_room_for_others()
    return run_app(folders, home)
