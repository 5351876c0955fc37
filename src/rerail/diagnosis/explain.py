"""The one way from a recorded run, or from logs, to an answer.

In: a run folder with the earlier runs of its command, or log files, or a stream. Out: `Diagnosis`.
Promises: it ends in bounded time. A run is answered within RUN_SECONDS, because the command's own
ending waits for it; of logs that somebody named, reading may take as long as their size demands.
What was not looked at by then is said in the answer.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from rerail.diagnosis.from_evidence import diagnose
from rerail.diagnosis.result import Diagnosis
from rerail.errors import UnreadableInput
from rerail.platform.deadline import Deadline
from rerail.store import DecodeError

if TYPE_CHECKING:
    from rerail.catalogue import Catalogue
    from rerail.evidence import Inputs, Listener
    from rerail.store import RunFolder

RUN_SECONDS = 5.0
LOG_SECONDS = 10.0
READ_BYTES_PER_SECOND = 100e6  # on a slow disk
FILE_SECONDS = 0.01  # to open one and to look at it, on a machine that has other work
MOST_COUNTED = 50_000  # files of a folder


def explain_run(
    folder: RunFolder,
    history: Sequence[RunFolder] = (),
    *,
    catalogue: Catalogue | None = None,
    seconds: float = RUN_SECONDS,
    keeps: bool = False,
) -> Diagnosis:
    """Why a recorded run ended; with `keeps` the answer is kept in its folder.

    Explained anew each time: the catalogue may have learnt since the run was recorded.
    """
    from rerail.evidence import collect_run

    info = folder.info()
    evidence = collect_run(folder, history, Deadline(seconds))
    evidence.facts.setdefault("run", folder.id.rpartition("-")[2])
    diagnosis = replace(diagnose(evidence, catalogue, info.command), run=folder.id)
    if keeps and not folder.is_live():
        keep(folder, diagnosis.to_json())
    return diagnosis


def explain_logs(
    paths: Sequence[Path], *, seconds: float | None = None, listener: Listener | None = None
) -> Diagnosis:
    """Why the job died whose ranks or nodes wrote these files, or the logs in these folders.

    The listener is shown the lines that were looked at.
    """
    from rerail.evidence import find_inputs

    if seconds is None:
        sizes = [size for path in paths for size in _sizes(path)]
        seconds = LOG_SECONDS + sum(sizes) / READ_BYTES_PER_SECOND + len(sizes) * FILE_SECONDS
    return _explain_inputs(find_inputs(paths, Deadline(seconds)), listener)


def explain_stream(stream: BinaryIO, name: str, *, listener: Listener | None = None) -> Diagnosis:
    """The same for what comes through a pipe; how long that takes is up to who writes it."""
    from rerail.evidence import inputs_of_stream

    return _explain_inputs(inputs_of_stream(stream, name, LOG_SECONDS), listener)


def _explain_inputs(inputs: Inputs, listener: Listener | None) -> Diagnosis:
    from rerail.evidence import collect_logs, with_dumps

    # collect_logs asks for `name`, `open` and the text of a path alone: a log has them.
    logs = cast("Sequence[Path]", inputs.logs)
    evidence = collect_logs(logs, inputs.deadline, listener) if logs else None
    evidence = with_dumps(evidence, inputs)
    said = " ".join(filter(None, (evidence.incomplete, inputs.incomplete)))
    evidence = replace(evidence, incomplete=said)
    return replace(diagnose(evidence), skipped=tuple(inputs.skipped))


def answer_on_record(folder: RunFolder, history: Sequence[RunFolder] = ()) -> Diagnosis:
    """Return the diagnosis that was kept; without one that can be read, explain the run anew."""
    return diagnosis_on_record(folder) or explain_run(folder, history)


def diagnosis_on_record(folder: RunFolder) -> Diagnosis | None:
    """The diagnosis that was kept in the run's folder; None if nobody can read one there."""
    from rerail.diagnosis.reading import read_document

    try:
        document = folder.diagnosis()
        return replace(read_document(document), run=folder.id) if document else None
    except (UnreadableInput, DecodeError):
        return None


def keep(folder: RunFolder, document: dict[str, Any]) -> None:
    """Write the answer into the run's folder, where there is room and leave to write."""
    from rerail.store import dumps, layout

    layout.keep_diagnosis(folder.path, dumps(document, indent=1))


def _sizes(path: Path) -> list[int]:
    """Of the file, or of the files in the folder; reading will say what is wrong with one."""
    try:
        if not path.is_dir():
            return [path.stat().st_size]
        files = (
            entry for here, _, names in os.walk(path) for entry in map(Path(here).joinpath, names)
        )
        return [file.lstat().st_size for file in itertools.islice(files, MOST_COUNTED)]
    except OSError:
        return [0]
