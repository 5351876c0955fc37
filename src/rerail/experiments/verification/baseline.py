"""What is known of the failure before a fix is tried: who crashed where, who came how far.

In: the store and a command. Out: a `Baseline`: the failure, the unit that runs are measured in, the
lifetimes, and the model that says what a clean stretch is worth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rerail.changes import Profile, read_profile
from rerail.experiments.trials.earlier_runs import earlier_runs, lifetimes, program_files
from rerail.experiments.trials.exposure import Distance, Unit, measure, resolution_of
from rerail.experiments.trials.failure import Diagnostician, Failure
from rerail.experiments.trials.start import Start
from rerail.store import RunFolder, Store
from rerail.survival import FailureModel, classify, fixed_step

MARK = "verification"  # in a run's settings: which verification it was made for


@dataclass
class Baseline:
    failure: Failure
    unit: Unit
    profile: Profile
    crashes: list[float] = field(default_factory=list)
    survivals: list[float] = field(default_factory=list)
    runs: list[RunFolder] = field(default_factory=list)  # newest first
    finished: list[float] = field(default_factory=list)  # how long runs that ended well were
    distances: list[Distance] = field(default_factory=list)
    died: list[bool] = field(default_factory=list)  # in the order of distances

    @property
    def resolution(self) -> float:
        """How exactly a time of death is known."""
        at_one_place = self.failure.has_one_place and not self.survivals
        return resolution_of(self.unit, self.crashes, at_one_place=at_one_place)

    def model(self, *, can_repeat: bool = True) -> FailureModel:
        """`can_repeat`: the unchanged program is still there to be asked a second time."""
        model = classify(self.crashes, self.survivals, resolution=self.resolution)
        if can_repeat or not self.failure.policy.is_certain or not self.crashes:
            return model
        first, last = min(self.crashes), max(self.crashes)
        if last - first <= 2.0 * self.resolution and max(self.survivals, default=0.0) <= last:
            return fixed_step(last, self.resolution)
        return model

    def add(self, folder: RunFolder, distance: Distance, *, died: bool) -> None:
        """One more run of the unchanged program."""
        exposure = distance.of(self.unit, died=died)
        (self.crashes if died else self.survivals).append(exposure)
        self.runs.insert(0, folder)
        self.distances.insert(0, distance)
        self.died.insert(0, died)

    def count_in_steps(self) -> None:
        """Go over to steps: who failed without any did so before the first."""
        self.unit = "steps"
        lives = list(zip(self.distances, self.died, strict=True))
        self.crashes = [each.of("steps", died=True) for each, died in lives if died]
        self.survivals = [each.of("steps", died=False) for each, died in lives if not died]
        self.finished = [length for length in self.survivals if length > 0.0]

    def begin_at(self, start: Start) -> None:
        """From now on runs are counted from a checkpoint on, or anew after all."""
        self.crashes, self.survivals = start.earlier(self.crashes, self.survivals)
        if start.state == "adopted":
            before = start.before_checkpoint
            ends = [] if before is None else [each - before for each in self.finished]
            self.finished = [each for each in ends if each > 0.0]

    @property
    def steps_per_second(self) -> float | None:
        rates = [d.steps_per_second for d in self.distances if d.steps_per_second]
        return sorted(rates)[len(rates) // 2] if rates else None

    @property
    def starting_seconds(self) -> float:
        """Until the first step is done, imports and all."""
        starts = [
            d.seconds - d.steps / d.steps_per_second for d in self.distances if d.steps_per_second
        ]
        return max(0.0, min(starts, default=0.0))

    def seconds_for(self, exposure: float, runs: int) -> float | None:
        """How long that many runs of this exposure take; None where the pace is not known."""
        if self.unit == "seconds":
            return exposure * runs
        rate = self.steps_per_second if self.unit == "steps" else None
        return None if rate is None else runs * (self.starting_seconds + exposure / rate)


def read_baseline(
    store: Store,
    command: Sequence[str],
    cwd: str,
    diagnostician: Diagnostician,
    key: str,
    *,
    is_changed: bool,
) -> Baseline | None:
    """From runs on record; None if none of them failed.

    `is_changed`: the fix is a change of the command's words or surroundings, so that only runs of
    the program as it is now compare. Otherwise the fix is in the program, and runs from before
    the fix are what there is to compare with.
    """
    runs = earlier_runs(
        store,
        command,
        cwd,
        diagnostician,
        of_any_version=not is_changed,
        apart_from=lambda settings: not is_changed and settings.get(MARK) == key,
    )
    newest = next((run for run in runs if run.has_failed), None)
    if newest is None or newest.ending.failure is None:
        return None
    baseline = baseline_of(newest.folder, newest.ending.failure)
    baseline.crashes, baseline.survivals = lifetimes(runs, baseline.failure, baseline.unit)
    baseline.died = [run.showed(baseline.failure) for run in runs]
    baseline.runs = [run.folder for run in runs]
    baseline.distances = [run.distance for run in runs]
    baseline.finished = [
        run.distance.of(baseline.unit, died=False) for run in runs if run.ending.failure is None
    ]
    return baseline


def baseline_of(folder: RunFolder, failure: Failure) -> Baseline:
    """With the failure known and nothing counted yet."""
    return Baseline(failure, measure(folder, 0.0).unit(), read_profile(folder))


def verification_key(command: Sequence[str], cwd: str, changes: Sequence[str]) -> str:
    """Equal for the same command with the same changes, as long as its program is the same."""
    digest = hashlib.sha256(repr((cwd, list(command), sorted(changes))).encode())
    for path in program_files(command, cwd):
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def runs_made_for(store: Store, key: str) -> list[RunFolder]:
    """Runs of an earlier verification of the same, oldest first."""
    found = [
        RunFolder(summary.path)
        for summary in store.summaries()
        if summary.info.settings.get(MARK) == key and summary.info.state == "ended"
    ]
    return found[::-1]
