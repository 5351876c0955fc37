"""Keeping the store within its size: which runs go first, and which never go.

In: a store's runs folder and a limit in bytes. Out: the ids that were removed. Removal renames the
folder aside first, so that a half-removed run is never taken for a run, and of several processes
that remove the same run exactly one does.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.typed_quantities import parse_size
from rerail.store import agent_memory
from rerail.store.regular_files import is_own_folder

UNEXPLAINED_KEPT = 20  # failures that nobody has explained, newest first
TRIAL_SECONDS = 3600.0  # an investigation without a trial for so long is over
DEFAULT_LIMIT_BYTES = 5 * 1024**3
_LEFTOVER = re.compile(r"\.removed-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}-[0-9]{1,10}")


def limit_bytes() -> int:
    """RERAIL_STORE_LIMIT, or the default. A limit that cannot be read is no reason to delete."""
    text = os.environ.get("RERAIL_STORE_LIMIT")
    return parse_size(text) if text else DEFAULT_LIMIT_BYTES


@dataclass(frozen=True)
class Candidate:
    """What decides whether a run may be removed, and when its turn comes."""

    id: str
    ended_unix: float
    is_success: bool
    is_explained: bool  # its diagnosis was shown to somebody
    is_in_use: bool  # it is live, or the process that recorded it has not ended
    trial_of: str | None = None  # the key of the investigation or verification that made it


def removal_order(candidates: Iterable[Candidate], last: str | None, now_unix: float) -> list[str]:
    """Return the ids that may be removed, first to go first.

    Successes go before failures, and within each group the run that ended first goes first. These
    are kept: a run that is in use, a trial of an investigation in progress, the failure that ended
    last, `last`, and of the failures that nobody has explained (trials apart) the UNEXPLAINED_KEPT
    that ended last. Older unexplained failures go like explained ones: the store has a bound.
    """
    runs = list(candidates)
    in_progress = {
        run.trial_of for run in runs if run.is_in_use or now_unix - run.ended_unix < TRIAL_SECONDS
    }
    failures = sorted(
        (run for run in runs if not run.is_success and not run.is_in_use),
        key=lambda run: (run.ended_unix, run.id),
    )
    unexplained = [run for run in failures if not run.is_explained and run.trial_of is None]
    kept = {run.id for run in (*failures[-1:], *unexplained[-UNEXPLAINED_KEPT:])}
    free = [
        run
        for run in runs
        if not run.is_in_use
        and (run.trial_of is None or run.trial_of not in in_progress)
        and run.id != last
        and run.id not in kept
    ]
    free.sort(key=lambda run: (not run.is_success, run.ended_unix, run.id))
    return [run.id for run in free]


def remove_folder(path: Path) -> None:
    """Remove a run folder, or raise the OSError that says why it is still there."""
    import shutil  # here, not above: it costs the start of every `rerail run` milliseconds

    memory = agent_memory.find(path)
    aside = path.with_name(f".removed-{path.name}-{os.getpid()}")
    path.rename(aside)
    if is_own_folder(aside):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink()  # a link to a run elsewhere, which stays as it is
        return
    if memory is not None:
        agent_memory.remove(memory)


def sweep_leftovers(runs: Path) -> None:
    """Finish removals that were cut short."""
    import shutil

    try:
        leftovers = [path for path in runs.iterdir() if _LEFTOVER.fullmatch(path.name)]
    except OSError:
        return
    for path in leftovers:
        if is_own_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
