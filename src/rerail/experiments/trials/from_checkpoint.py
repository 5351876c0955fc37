"""Trials that begin at the newest sound checkpoint before the failure, each with its own copy.

In: where the command leaves its checkpoints, how it is told to go on, and the run that failed. Out:
the command of a trial, its copy of the checkpoint and its outputs in a scratch folder. Promises:
the user's checkpoints are read and never written, moved or deleted; what a trial wrote in its
scratch folder is gone when the trial is over; every reason to begin anew instead is a sentence.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rerail.checkpoints import (
    NoRoom,
    ResumeArguments,
    Soundness,
    checked_resume,
    choose_checkpoint,
    copy_apart,
    find_checkpoints,
    numbers_in,
    read_clock,
    remove_copies,
)
from rerail.errors import RerailError
from rerail.experiments.trials.exposure import Unit, exposure_in_words
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.outputs import (
    Elsewhere,
    Output,
    Period,
    Surroundings,
    fill,
    find_outputs,
    write_elsewhere,
)
from rerail.experiments.trials.start import MOST_REFUSED, Start, is_worthwhile
from rerail.experiments.trials.trial import Trial
from rerail.records import BlackBox
from rerail.store import RunFolder, Store, fingerprint, liveness, training_box
from rerail.wording import listed, share_in_percent

FOLDER = "scratch"  # in the store
UNTIL_SEEN = "until the failure is seen the command runs as it is, from its beginning"


@dataclass(frozen=True)
class Resuming:
    """Where checkpoints are and how the command goes on from one."""

    pattern: str
    arguments: ResumeArguments


def resuming_of(
    store: Store,
    command: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    pattern: str | None,
    resume_args: str | None,
) -> Resuming | None:
    """As given, else as the newest recorded run of this command was given it."""
    if pattern is None and resume_args is None:
        wanted = fingerprint(command, cwd)
        for summary in store.summaries():
            settings = summary.info.settings
            if summary.info.fingerprint == wanted and "resume_args" in settings:
                pattern, resume_args = settings.get("checkpoint"), settings["resume_args"]
                break
    arguments = checked_resume(command, environ, pattern, resume_args)
    return Resuming(pattern, arguments) if pattern is not None and arguments is not None else None


@dataclass
class Place:
    """Where one trial runs: its words and variables, and the folder that is its own."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def outputs(self) -> list[Path]:
        """The folders that hold what it wrote because its arguments were changed."""
        return sorted(self.folder.glob("output-*")) if self.folder is not None else []

    def remove(self) -> None:
        if self.folder is not None:
            remove_copies(self.folder)


class CheckpointStart:
    """Makes the places of an experiment's trials. `start` says where they begin."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        environ: Mapping[str, str],
        scratch: Path,
        resuming: Resuming,
        say: Callable[[str], None],
    ) -> None:
        self.start: Start | None = None
        self._command = tuple(command)
        self._cwd = Path(cwd)
        self._environ = environ
        self._scratch = scratch.absolute()
        self._resuming = resuming
        self._say = say
        self._refused: dict[Path, str] = {}
        self._around: Surroundings | None = None
        self._outputs: list[Output] = []
        self._kept: Path | None = None  # our own copy, which trials get copies of
        self._made = 0

    @property
    def elsewhere(self) -> list[Path]:
        """The outputs for which each trial gets a place of its own."""
        return [each.path for each in self._outputs]

    # -- choosing -----------------------------------------------------------------------------

    def choose(self, folder: RunFolder, failure: Failure, crash: float, unit: Unit) -> Start:
        """Where trials begin after this run failed so far from its beginning; it is said."""
        try:
            start = self._chosen(folder, failure, crash, unit)
        except (NoRoom, OSError) as error:
            start = Start("dropped", crash=crash, why=str(error))
        self._set(start)
        return start

    def begin_anew(self, folder: RunFolder, why: str) -> Start:
        """Without a look for a checkpoint; trials have outputs of their own all the same."""
        self._look_around(folder, "")
        start = Start("dropped", why=why)
        self._set(start)
        return start

    def take_up(self, start: Start, folder: RunFolder) -> Start:
        """Go on with what an earlier session decided, if the checkpoint is still the same."""
        self.start = start
        self._look_around(folder, start.checkpoint)
        if start.state == "dropped":
            return start
        try:
            is_same = _identity(self._cwd / start.checkpoint) == start.identity
            if is_same:
                self._keep(Path(start.checkpoint))
            else:
                self._set(start.dropped(f"{start.checkpoint} is not the one of before"))
        except (NoRoom, OSError) as error:
            self._set(start.dropped(str(error)))
        return self.start

    def take_note(self, trial: Trial, folder: RunFolder, failure: Failure, unit: Unit) -> Start:
        """A run of the unchanged command from the checkpoint is over: what now?"""
        assert self.start is not None
        if trial.outcome == "other" and len(self._refused) < MOST_REFUSED - 1:
            why = f"a run from there ended otherwise: {trial.summary or trial.cause}"
            self._refused[Path(self.start.checkpoint)] = why
            return self.choose(folder, failure, self.start.crash, unit)
        start = self.start.after(trial, unit)
        self._set(start)
        return start

    def _chosen(self, folder: RunFolder, failure: Failure, crash: float, unit: Unit) -> Start:
        anew = Start("dropped", crash=crash)
        if failure.policy.builds_up:
            self._look_around(folder, "")
            return anew.dropped(f"{failure.cause} builds up from the very beginning of a process")
        info = folder.info()
        end_unix = info.started_unix + (info.elapsed_seconds or 0.0)
        box = _furthest(folder)
        clock = read_clock(box, info.started_unix)
        bad_since = None
        if box is not None and box.first_nonfinite_step and failure.policy.spoils_checkpoints:
            bad_since = clock.time_of(box.first_nonfinite_step)
        choice = choose_checkpoint(
            self._resuming.pattern, self._cwd, self._refused, bad_since, until_unix=end_unix
        )
        for sentence in choice.passed_over():
            self._say(sentence)
        found = choice.chosen
        self._look_around(folder, str(found.path) if found else "")
        if found is None:
            there = f"none of {choice.found} loads" if choice.found else "there is none"
            return anew.dropped(f"no checkpoint for {self._resuming.pattern}: {there}")
        if found.modified_ns / 1e9 < info.started_unix:
            return anew.dropped(f"{found.path} was written before the run that failed began")
        for remark in found.remarks:
            self._say(f"checkpoint {found.path}: {remark}")
        if not self._resuming.arguments.names_checkpoint and not self._is_in_an_output(found):
            return anew.dropped(
                "--resume-args has no {checkpoint}, and no word of the command names the folder"
                f" of {found.path}: it would go on from the checkpoint itself"
            )
        distance = _distance(found, clock.step_at(found.modified_ns / 1e9), end_unix, crash, unit)
        if not is_worthwhile(distance, crash):
            assert distance is not None
            return anew.dropped(
                f"{found.path} lies {exposure_in_words(distance, unit)} before the failure,"
                f" which came after {exposure_in_words(crash, unit)}: little would be saved"
            )
        self._keep(found.path)
        identity = _identity(self._cwd / found.path)
        return Start("testing", str(found.path), identity, crash, distance)

    def _look_around(self, folder: RunFolder, checkpoint: str) -> None:
        """What the run on record shows of where the command writes; once."""
        info = folder.info()
        end_unix = info.started_unix + (info.elapsed_seconds or 0.0)
        names = find_checkpoints(self._resuming.pattern, self._cwd)
        self._around = Surroundings(
            cwd=self._cwd,
            home=self._scratch.parent.parent,
            checkpoint=_absolute(self._cwd / checkpoint) if checkpoint else None,
            others=frozenset(_absolute(self._cwd / name) for name in names),
            period=Period(info.started_unix, end_unix),
        )
        known = [each.path for each in self._outputs]
        self._outputs = find_outputs(self._command, self._around)
        paths = [each.path for each in self._outputs]
        if paths and paths != known:
            self._say(f"what trials write to {listed(_names(paths, self._cwd))} goes elsewhere")

    def _is_in_an_output(self, found: Soundness) -> bool:
        path = _absolute(self._cwd / found.path)
        return any(path.is_relative_to(output.path) for output in self._outputs)

    def _keep(self, path: Path) -> None:
        """Trials get copies of a copy: one that writes where the command does changes nothing."""
        kept = self._scratch / "checkpoint" / path.name
        remove_copies(kept)
        copy_apart(self._cwd / path, kept)
        self._kept = kept

    def _set(self, start: Start) -> None:
        self.start = start
        if start.state == "testing" and not start.seen:
            self._say(f"first: does it fail from {start.checkpoint} too?{_how_near(start)}")
        elif start.state == "dropped":
            self._say(f"trials begin anew: {start.why}")
        elif start.state == "adopted":
            where = "at the same place" if start.skipped is not None else "at random"
            self._say(f"it fails from {start.checkpoint} too, {where}: trials begin there")

    # -- trials -------------------------------------------------------------------------------

    def place(self) -> Place:
        """For the next trial. Before a failure was seen, the command as it is."""
        if self.start is None or self._around is None:
            return Place(self._command)
        self._made += 1
        folder = self._scratch / f"trial-{self._made}"
        try:
            return self._filled(folder, self.start.begins_at)
        except (NoRoom, OSError) as error:
            remove_copies(folder)
            if not self.start.begins_at:
                raise RerailError(f"a trial has no folder of its own: {error}") from None
            self._set(self.start.dropped(str(error)))
            return self.place()

    def _filled(self, folder: Path, checkpoint: str) -> Place:
        assert self._around is not None
        moved = write_elsewhere(self._command, self._outputs, folder)
        fill(moved, self._around, goes_on=bool(checkpoint))
        place = Place(moved.command, {}, {"outputs": _mapping(moved)}, folder)
        if not checkpoint:
            return place
        assert self._kept is not None and self._around.checkpoint is not None
        copy = moved.of(self._around.checkpoint) or folder / "checkpoint" / self._kept.name
        remove_copies(copy)
        copy_apart(self._kept, copy)
        resumed = self._resuming.arguments.apply(moved.command, self._environ, copy)
        return replace(
            place,
            command=resumed.command,
            variables=resumed.variables,
            settings={**place.settings, "resumed_from": checkpoint, "copy": str(copy)},
        )

    def close(self) -> None:
        remove_copies(self._scratch)
        try:
            self._scratch.parent.rmdir()
        except OSError:
            pass  # another experiment's is there too


def scratch_of(store: Store, key: str) -> Path:
    """A folder for this process alone. What a killed one of this machine left behind is removed."""
    scope = hashlib.sha256(liveness.scope().encode()).hexdigest()[:8]
    for path in (store.home / FOLDER).glob(f"*-{scope}-*"):
        pid = path.name.rpartition("-")[2]
        if pid.isdecimal() and int(pid) != os.getpid() and not _is_alive(int(pid)):
            remove_copies(path)
    return store.home / FOLDER / f"{key}-{scope}-{os.getpid()}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # somebody else's
    return True


def _distance(
    found: Soundness, step: int | None, end_unix: float, crash: float, unit: Unit
) -> float | None:
    """From the checkpoint to the failure."""
    if unit == "steps":
        # Further back than the record of steps, its name may tell. An epoch's number would say that
        # it lies near the beginning: then nothing is known.
        named = [n for n in numbers_in(found.path.name) if 0.5 * crash <= n < crash]
        step = max(named, default=None) if step is None else step
        return None if step is None else max(1.0, crash - step)
    if unit == "seconds":
        return max(0.1, end_unix - found.modified_ns / 1e9)
    return None


def _furthest(folder: RunFolder) -> BlackBox | None:
    try:
        return training_box(folder.boxes())
    except RerailError:
        return None


def _identity(path: Path) -> str:
    """Of a file its size and time; of a folder those of all its files."""
    files = sorted(each for each in path.rglob("*")) if path.is_dir() else [path]
    found = [each.stat() for each in files if each.is_file()]
    newest = max((status.st_mtime_ns for status in found), default=0)
    return f"{len(found)} {sum(status.st_size for status in found)} {newest}"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - as it is spelt, links and all


def _names(paths: Sequence[Path], cwd: Path) -> list[str]:
    return [str(path.relative_to(cwd) if path.is_relative_to(cwd) else path) for path in paths]


def _mapping(moved: Elsewhere) -> dict[str, str]:
    return {str(old): str(new) for old, new in moved.places.items()}


def _how_near(start: Start) -> str:
    if start.distance is None:
        return ""
    saved = 1.0 - start.distance / start.crash if start.crash else 0.0
    return f" It saves {share_in_percent(saved)} of the way"
