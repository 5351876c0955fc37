"""What runs on record already say about the failure of this command.

In: the store. Out: the failure that was seen last and how far runs came before it. Only runs of
the same command in the same folder, without any change, and newer than the program itself count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.errors import RerailError
from rerail.experiments.trials.exposure import Distance, Unit, measure
from rerail.experiments.trials.failure import Diagnostician, Ending, Failure
from rerail.store import RunFolder, Store, fingerprint

MOST_RUNS = 12


@dataclass(frozen=True)
class EarlierRun:
    folder: RunFolder
    ending: Ending
    distance: Distance

    @property
    def has_failed(self) -> bool:
        failure = self.ending.failure
        return failure is not None and not failure.policy.is_from_outside

    def showed(self, failure: Failure) -> bool:
        other = self.ending.failure
        return other is not None and failure.is_same_as(other, self.ending.rivals)


def earlier_runs(
    store: Store,
    command: Sequence[str],
    cwd: str,
    diagnostician: Diagnostician,
    *,
    of_any_version: bool = False,
    apart_from: Callable[[Mapping[str, Any]], bool] = lambda settings: False,
) -> list[EarlierRun]:
    """Newest first. `of_any_version`: also those from before the program was changed.

    `apart_from` says by its settings whether a run does not count.
    """
    wanted = fingerprint(command, cwd)
    since = 0.0 if of_any_version else _program_changed_unix(command, cwd)
    found: list[EarlierRun] = []
    for summary in store.summaries():
        info = summary.info
        if info.fingerprint != wanted or info.state != "ended" or info.started_unix < since:
            continue
        if info.settings.get("changes") or info.settings.get("resumed_from"):
            continue  # another program, or one that did not begin at its beginning
        if apart_from(info.settings):
            continue
        folder = RunFolder(summary.path)
        try:
            ending = diagnostician.ending(folder, keeps=False)
            distance = measure(folder, info.elapsed_seconds or 0.0)
        except RerailError:
            continue
        found.append(EarlierRun(folder, ending, distance))
        if len(found) >= MOST_RUNS:
            break
    return found


def lifetimes(
    runs: Sequence[EarlierRun], failure: Failure, unit: Unit
) -> tuple[list[float], list[float]]:
    """How far runs came before this failure, and how far others came without it."""
    crashes, survivals = [], []
    for run in runs:
        if run.showed(failure):
            crashes.append(run.distance.of(unit, died=True))
        else:
            survivals.append(run.distance.of(unit, died=False))
    return crashes, survivals


def _program_changed_unix(command: Sequence[str], cwd: str) -> float:
    """When a file that the command names was last written: runs before that were of another."""
    latest = 0.0
    for path in program_files(command, cwd):
        try:
            latest = max(latest, path.stat().st_mtime)
        except OSError:
            continue
    return latest


def program_files(command: Sequence[str], cwd: str) -> list[Path]:
    """The files of the program itself that the command names."""
    paths = [Path(cwd) / word for word in command[1:]]
    programs = [path for path in paths if path.suffix in (".py", ".sh")]
    return [path for path in programs if os.path.isfile(path)]  # noqa: PTH113 - never raises
