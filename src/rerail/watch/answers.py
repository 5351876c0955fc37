"""What a key asks for: stacks, output, the explanation, the package. Each reads, and gives lines.

In: a run. Out: lines of plain, printable text. Promises: nothing is written into the run's folder;
what cannot be had is said in a line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rerail.api import Run
from rerail.errors import RerailError
from rerail.live import readable
from rerail.platform.os_text import printable
from rerail.store import RunFolder, Store
from rerail.wording import bytes_in_words

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

OUTPUT_LINES = 2000


def stack_lines(folder: RunFolder) -> list[str]:
    """Now, of a run that lives; else what was taken when it crashed or last stood still."""
    from rerail.evidence import read_material
    from rerail.recorder import look_now
    from rerail.report import stacks_now

    material = read_material(folder)
    if folder.is_live():
        return stacks_now.lines_of(material, look_now(folder)) or [
            "Nothing could be read of its processes."
        ]
    found = stacks_now.last_taken(material)
    if found is None:
        return ["It is over, and no stacks were taken of it."]
    stall, what = found
    return [what, *stacks_now.lines_of(material, stall)]


def output_lines(folder: RunFolder) -> list[str]:
    lines = [readable(line.text) for line in folder.output().tail(OUTPUT_LINES)]
    return lines or ["It has printed nothing."]


def explain_lines(folder: RunFolder, width: int) -> list[str]:
    from rerail.report import terminal

    text = terminal.render(answer(folder), max(40, width))
    return [printable(line) for line in text.splitlines()]


def answer(folder: RunFolder) -> Diagnosis:
    """The answer on record, or one that nobody keeps."""
    from rerail.diagnosis import answer_on_record

    store = Store(folder.path.parent.parent)
    return answer_on_record(folder, store.history(folder.info()))


def write_package(folder: RunFolder) -> str:
    """The sentence that says where it is."""
    from rerail.report import pack

    path = Path(f"rerail-{folder.id}.zip")
    size = pack(folder, answer(folder)).write(path)
    return f"wrote {path} ({bytes_in_words(size)}), secrets masked"


def in_one_line(error: Exception) -> str:
    if isinstance(error, RerailError):
        return printable(error.message)
    return printable(f"{type(error).__name__}: {error}")


def matching(lines: list[str], wanted: str) -> list[str]:
    """Those with this text in them, whatever the case."""
    return [line for line in lines if wanted.lower() in line.lower()] if wanted else lines


def runs_to_list(home: Path | None) -> list[Run]:
    """What lives, then what ended, newest first."""
    from rerail import api

    on_record = api.runs(home)
    return sorted(on_record, key=lambda run: run.info.state != "running")


def live_folders(home: Path | None) -> list[RunFolder]:
    return [RunFolder(run.folder) for run in runs_to_list(home) if run.state == "running"]
