"""Where every process of a run is right now: the user's own code first.

Ends with 0 when there are stacks to show, 1 when nothing could be read, 2 for a wrong name.
"""

from __future__ import annotations

from pathlib import Path

import click

from rerail import api
from rerail.cli._numbers import WholeRange
from rerail.cli._options import completes, home_option, json_option
from rerail.cli._printing import console, print_json
from rerail.cli._telling import echo
from rerail.errors import UsageError
from rerail.platform.os_text import shown
from rerail.store import RunFolder
from rerail.wording import cut, file_name


@click.command(name="stacks", epilog="Example: rerail stacks last")
@click.argument("run", default="last", shell_complete=completes("run"))
@click.option("--pid", type=WholeRange(min=1), metavar="P", help="Only this process of it.")
@home_option
@json_option
def command(run: str, pid: int | None, home: Path | None, as_json: bool) -> int:
    """Where every process of a live run is right now, and what each waits for.

    Frames of the user's own code are marked with ">"; native functions stand below them in one
    line. Of a finished run: its crash, or what was taken when it last stood still. Root is not
    needed: the agent inside the processes answers. With py-spy installed (pip install
    'rerail[stacks]') and allowed, native frames and the holders of locks are there too.
    """
    from rerail.evidence import read_material
    from rerail.recorder import look_now
    from rerail.report import stacks_now

    folder = RunFolder(api.open_run(run, home=home).folder)
    material = read_material(folder)
    if folder.is_live():
        if pid is not None and all(process.pid != pid for process in material.processes):
            raise UsageError(
                f"{pid} is no process of {folder.id}", f"rerail show {run} lists them."
            )
        stall, taken = look_now(folder, pid), "now"
        said = f"{_typed(folder)}: now"
    else:
        found = stacks_now.last_taken(material)
        if found is None:
            echo(f"rerail: {folder.id} is over, and no stacks were taken of it", err=True)
            echo(f"rerail explain {folder.id} says where it died.", err=True)
            return 1
        stall, what = found
        taken, said = "recorded", f"{_typed(folder)}: {what}"
    if as_json:
        print_json(stacks_now.document_of(material, stall, taken))
        return 0 if stall.stacks else 1
    lines = stacks_now.lines_of(material, stall)
    if not lines:
        echo("rerail: nothing could be read of its processes", err=True)
        return 1
    width = console().width
    echo("\n".join(cut(line, width) for line in [shown(said).replace("\n", " "), *lines]))
    return 0


def _typed(folder: RunFolder) -> str:
    command = " ".join(file_name(word) for word in folder.info().command[:3])
    return f"run {folder.id.rpartition('-')[2]} · {command}"
