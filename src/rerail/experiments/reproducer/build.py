"""A folder with the smallest command that still fails, a script that runs it, and what to expect.

In: an investigation that has seen the failure. Out: the folder, checked that its script fails, and
the document's `reproducer`.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.experiments.reproducer.files import DATA, RUN, Reproducer, as_texts, write
from rerail.experiments.reproducer.npz_slice import write_first_rows
from rerail.experiments.reproducer.reduction import Reduction, Smaller
from rerail.experiments.reproducer.smaller import take_apart
from rerail.store import layout


def make_reproducer(reduction: Reduction, folder: Path) -> dict[str, Any]:
    """Reduce, write and check; the document's `reproducer`."""
    failure = reduction.journal.failure
    assert failure is not None
    started = time.monotonic()
    is_smallest = reduction.reduce()
    best = reduction.best
    command, inside = _with_data_beside(best, reduction, folder)
    runs = reduction.runs_needed()
    kept = set(take_apart(best.command).pieces)
    original = take_apart(reduction.journal.command).pieces
    left_away = tuple(piece for piece in original if piece not in kept)
    reproducer = Reproducer(
        command=command,
        cwd=reduction.cwd,
        failure=failure,
        runs=runs,
        inside=inside,
        left_away=as_texts(left_away),
        distance=_how_far(best, reduction),
    )
    write(folder, reproducer)
    is_checked = _check(reduction, folder, reproducer, best)
    crashed = sum(t.outcome == "crashed" for t in reduction.trials[-1:]) + best.failed
    write(folder, replace(reproducer, seen=(crashed, crashed + best.runs - best.failed)))
    return {
        "folder": str(folder),
        "command": list(command),
        "fails": is_checked,
        "runs": runs,
        "left_away": list(reproducer.left_away),
        "inside": inside,
        "is_smallest": is_smallest,
        "trials": [trial.contract(reduction.journal.unit) for trial in reduction.trials],
        "seconds": round(time.monotonic() - started, 1),
    }


def _check(reduction: Reduction, folder: Path, reproducer: Reproducer, best: Smaller) -> bool:
    if reproducer.inside:
        return best.failed > 0  # the script runs rerail itself; the same was just seen to fail
    # The time for this is not counted: a reproducer that was not seen to fail is none.
    reduction.deadline = math.inf
    return reduction.check(("sh", str(folder.absolute() / RUN)), reproducer.runs)


def _with_data_beside(
    best: Smaller, reduction: Reduction, folder: Path
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The rows that are needed as files of their own, where the command names the archives."""
    rows = best.inside.get("npz-rows")
    if rows is None:
        return best.command, {}
    archives = reduction.archives()
    words = list(best.command)
    places = {
        at: path
        for at, word in enumerate(words)
        for path in archives
        if Path(reduction.cwd, word.rpartition("=")[2]).resolve() == path.resolve()
    }
    if set(places.values()) != set(archives):
        return best.command, best.inside
    layout.make_folder(folder)
    layout.make_folder(folder / DATA)
    for at, path in places.items():
        target = folder.absolute() / DATA / path.name
        write_first_rows(path, target, int(rows))
        before, equals, _ = words[at].rpartition("=")
        words[at] = f"{before}{equals}{target}"
    return tuple(words), {}


def _how_far(best: Smaller, reduction: Reduction) -> str:
    unit = reduction.journal.unit
    if not best.exposures or unit == "seconds":
        return ""  # the failure's own sentence says when
    if not reduction.is_fixed:
        return f", at random, after {reduction.mean:.0f} {unit} on average"
    return f", in {'step' if unit == 'steps' else 'batch'} {max(best.exposures):.0f} of the run"
