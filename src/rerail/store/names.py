"""Which run does the user mean?

In: what was typed, and the ids on record. Out: the folder of one run, or UnknownRun saying what
could have been typed instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from rerail.errors import UnknownRun
from rerail.store import layout
from rerail.store.bounds import document_bytes
from rerail.store.codec import DecodeError, loads
from rerail.store.regular_files import read_regular


def find_run(home: Path, name: str, ids: Sequence[str]) -> Path:
    """`ids` are sorted, oldest first."""
    runs = home / layout.RUNS
    if name == "last":
        named = [run_id for run_id in ids if _is_run(runs / run_id)]
        if not named:
            raise UnknownRun(*_nothing_recorded(home))
        return runs / _newest(runs, named)
    if name in ids:
        return runs / name
    as_path = Path(name)
    with contextlib.suppress(RuntimeError):  # ~somebody, whom this machine does not know
        as_path = as_path.expanduser()
    if _is_run(as_path):
        return as_path.absolute()
    if name and os.sep not in name:
        starting = [run_id for run_id in ids if run_id.startswith(name)]
        # The four digits at the end are what people remember.
        matches = starting or [run_id for run_id in ids if run_id.endswith(f"-{name}")]
        if len(matches) == 1:
            return runs / matches[0]
        if matches:
            raise UnknownRun(
                f"{len(matches)} runs begin with {name!r}: {_some(matches)}",
                "Type more of the id, or `last` for the newest.",
            )
    if _is_folder(as_path):
        raise UnknownRun(
            f"{name} is not a run folder: it has no {layout.RUN}",
            "A run folder is runs/ID in a store; `rerail runs` lists the ids.",
        )
    if not ids:
        raise UnknownRun(*_nothing_recorded(home, name))
    import difflib  # here, not above: it costs the start of every `rerail run` milliseconds

    close = difflib.get_close_matches(name, ids, n=3, cutoff=0.5) or list(ids[-3:])[::-1]
    raise UnknownRun(
        f"no run {name!r} in {home}",
        f"There is {_some(close)}; `rerail runs` lists all {len(ids)}, `last` is the newest.",
    )


def _is_run(path: Path) -> bool:
    """Whether there is a run.json, of whatever kind; what is wrong with it is for its reader."""
    try:
        (path / layout.RUN).lstat()
        return True
    except (OSError, ValueError):  # also a name that is too long, or that holds a zero byte
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _newest(runs: Path, ids: Sequence[str]) -> str:
    """Ids say the second; of runs begun in the same second run.json knows which came last."""
    second = ids[-1][:15]
    same = [run_id for run_id in ids if run_id[:15] == second]
    return max(same, key=lambda run_id: (_started(runs / run_id), run_id)) if same[1:] else same[0]


def _started(path: Path) -> float:
    try:
        return float(
            loads(read_regular(path / layout.RUN, document_bytes(layout.RUN)))["started_unix"]
        )
    except (OSError, DecodeError, LookupError, TypeError, ValueError):
        return 0.0  # it cannot be read, or was removed this moment


def _nothing_recorded(home: Path, name: str = "") -> tuple[str, str]:
    wanted = f"no run {name!r}: " if name else ""
    return (
        f"{wanted}nothing is recorded in {home}",
        "Record one with `rerail run -- CMD`, or say where the runs are with --home.",
    )


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:4])
    return f"{shown}, …" if len(ids) > 4 else shown
