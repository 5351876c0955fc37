"""Which run does the user mean?

In: what was typed, and the ids on record. Out: the folder of one run, or UnknownRun saying what
could have been typed instead. `last` is the newest run; where others were under way at the same
time, it is the newest of this terminal, else of this working folder.
"""

from __future__ import annotations

import calendar
import contextlib
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.errors import UnknownRun
from rerail.platform.this_terminal import this_terminal
from rerail.store import layout, liveness
from rerail.store.bounds import document_bytes
from rerail.store.codec import DecodeError, loads
from rerail.store.regular_files import read_regular

_MOST_RIVALS = 200  # of the newest runs; reading as many run.json takes about 20 ms


def find_run(home: Path, name: str, ids: Sequence[str], *, only_inside: bool = False) -> Path:
    """Return the folder of the run that `name` means. `ids` are sorted, oldest first.

    `only_inside`: a path counts only if it leads, links followed, to one of `ids` in this store.
    """
    runs = home / layout.RUNS
    if name == "last":
        named = [run_id for run_id in ids if _is_run(runs / run_id)]
        if not named:
            raise UnknownRun(*_nothing_recorded(home))
        return runs / _last(runs, named)
    if name in ids:
        return runs / name
    as_path = Path(name)
    with contextlib.suppress(RuntimeError):  # ~somebody, whom this machine does not know
        as_path = as_path.expanduser()
    place = _inside(runs, as_path, ids) if only_inside else as_path.absolute()
    if place is not None and _is_run(place):
        return place
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
    if not only_inside and _is_folder(as_path):
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


def _inside(runs: Path, path: Path, ids: Sequence[str]) -> Path | None:
    """The run folder of this store that a path leads to; None if it leads elsewhere."""
    try:
        place, own = path.resolve(), runs.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a zero byte
        return None
    return runs / place.name if place.parent == own and place.name in ids else None


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


@dataclass(frozen=True)
class _Span:
    """When a run was under way, and from where it was started."""

    id: str
    started: float
    ended: float
    terminal: str
    cwd: str


def _last(runs: Path, ids: Sequence[str]) -> str:
    """The newest; of those that were under way when it began, the one that was typed here."""
    spans = [_span(runs / run_id) for run_id in ids[-_MOST_RIVALS:]]
    newest = max(spans, key=lambda span: (span.started, span.id))
    rivals = [span for span in spans if span.ended >= newest.started]
    if len(rivals) == 1:
        return newest.id
    here, folder = this_terminal(), _working_folder()
    return max(
        rivals,
        key=lambda span: (
            bool(here) and span.terminal == here,
            bool(folder) and span.cwd == folder,
            span.started,
            span.id,
        ),
    ).id


def _span(path: Path) -> _Span:
    try:
        document = loads(read_regular(path / layout.RUN, document_bytes(layout.RUN)))
        started = float(document["started_unix"])
        elapsed = document.get("elapsed_seconds")
        is_over = document.get("state") != "running" or liveness.is_held(path) is False
        ended = started + float(elapsed or 0.0) if is_over else math.inf
        settings = document.get("settings") or {}
        is_of_this_boot = document.get("recorder_scope") == liveness.scope()
        terminal = str(settings.get("terminal") or "") if is_of_this_boot else ""
        return _Span(path.name, started, ended, terminal, str(document.get("cwd") or ""))
    except (OSError, DecodeError, LookupError, TypeError, ValueError, AttributeError):
        # It cannot be read, or was removed this moment. Its id says the second.
        second = _second(path.name)
        return _Span(path.name, second, second, "", "")


def _second(run_id: str) -> float:
    try:
        return calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return 0.0


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - compared with a text
    except OSError:
        return ""  # it was removed


def _nothing_recorded(home: Path, name: str = "") -> tuple[str, str]:
    wanted = f"no run {name!r}: " if name else ""
    return (
        f"{wanted}nothing is recorded in {home}",
        "Record one with `rerail run -- CMD`, or say where the runs are with --home.",
    )


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:4])
    return f"{shown}, …" if len(ids) > 4 else shown
