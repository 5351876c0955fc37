"""Smaller and smaller commands, each run to see whether it still fails.

In: an investigation that has seen the failure. Out: the smallest command that was seen to fail of
the same cause. Every one that is kept has failed, so the result is right whenever the time runs
out; only how small it is depends on the time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rerail.changes import DoesNotApply, apply_changes, parse_change
from rerail.experiments.reproducer.npz_slice import rows_of
from rerail.experiments.reproducer.smaller import fewest, length_options, smallest, take_apart
from rerail.experiments.trials.judge import Judge
from rerail.experiments.trials.trial import Trial
from rerail.experiments.trials.trial_driver import TrialDriver, UnderWay
from rerail.experiments.trials.trial_setup import TrialSetup
from rerail.scheduling import Scheduler
from rerail.store import RunFolder, Store

# A smaller command that is clean for three mean times is taken not to fail: wrong in 5 of 100
# cases, and then the command is a little larger than it had to be.
_CLEAN_MEANS = 3.0
_MOST_RUNS = 5  # of one command that ends by itself before that
_FEWEST_ROWS_TRIED = 1
_LIKELY_SEEN = 0.95


class _OutOfTime(Exception):
    """What has been found so far is the answer."""


@dataclass
class Smaller:
    """A command on its way down, and what its runs showed."""

    command: tuple[str, ...]
    inside: dict[str, str] = field(default_factory=dict)
    failed: int = 0
    runs: int = 0
    exposures: list[float] = field(default_factory=list)  # of its failures


class Reduction:
    def __init__(
        self,
        judge: Judge,
        scheduler: Scheduler,
        store: Store,
        environ: Mapping[str, str],
        cwd: str,
        seconds: float,
        stall_seconds: float | None,
        say: Callable[[str], None],
        setup: TrialSetup,
    ) -> None:
        self.judge = judge
        self._setup = setup
        self.journal = judge.journal
        self._driver = TrialDriver[UnderWay](
            scheduler, lambda: self.deadline - time.monotonic(), say
        )
        self.store = store
        self.environ = dict(environ)
        self.cwd = cwd
        self.stall_seconds = stall_seconds
        self.trials: list[Trial] = []
        self.deadline = time.monotonic() + seconds
        self._say = say
        unit = self.journal.unit
        unchanged = [
            t
            for t in self.journal.trials
            if not t.changes and not t.raised and not t.checkpoint and t.outcome != "lost"
        ]
        crashes = [t.exposure(unit) for t in unchanged if t.outcome == "crashed"]
        crashes += self.journal.earlier_crashes
        exposure = math.fsum(t.exposure(unit) for t in unchanged)
        exposure += math.fsum(self.journal.earlier_crashes)
        exposure += math.fsum(self.journal.earlier_survivals)
        self.mean = exposure / max(1, len(crashes))
        finished = sum(t.outcome == "finished" for t in unchanged)
        finished += len(self.journal.earlier_survivals)
        self._share_failing = len(crashes) / max(1, len(crashes) + finished)
        spread = max(crashes, default=1.0) - min(crashes, default=1.0)
        self.is_fixed = len(crashes) > 1 and spread <= 0.1 * max(crashes)
        most = max(crashes, default=1.0)
        limit = 1.5 * most + 2.0 if self.is_fixed else max(1.5 * most, _CLEAN_MEANS * self.mean)
        self._limit = limit
        self.best = Smaller(tuple(self.journal.command))

    def reduce(self) -> bool:
        """Whether there was time for everything."""
        try:
            self._drop_arguments()
            self._shorten()
            self._cut_data()
        except _OutOfTime:
            self._say("reproducer: the time of the budget was used up: the smallest so far counts")
            return False
        return True

    def still_fails(self, command: tuple[str, ...], inside: dict[str, str]) -> bool:
        """Runs it until it fails or has been clean for long enough; the best so far is kept."""
        tried = Smaller(command, inside)
        clean = 0.0
        while clean < self._limit and tried.runs < _MOST_RUNS:
            trial = self._run(command, inside)
            if trial.not_applied or trial.outcome in ("other", "lost"):
                return False
            tried.runs += 1
            exposure = trial.exposure(self.journal.unit)
            if trial.outcome == "crashed":
                tried.failed += 1
                tried.exposures.append(exposure)
                self.best = tried
                return True
            clean += exposure
            if trial.outcome == "stopped":
                break
        return False

    def check(self, command: tuple[str, ...], runs: int) -> bool:
        """Whether the script fails as it should."""
        for _ in range(2 if runs > 1 else _MOST_RUNS):
            trial = self._run(command, {}, limit=math.inf)
            if trial.outcome == "crashed":
                return True
        return False

    def _drop_arguments(self) -> None:
        parts = take_apart(self.best.command)
        if not parts.pieces:
            return
        self._say(f"reproducer: which of {len(parts.pieces)} arguments it needs to fail")
        fewest(parts.pieces, lambda kept: self.still_fails(parts.command(kept), {}))

    def _shorten(self) -> None:
        command = self.best.command
        text = _program_text(command, self.cwd)
        wanted = math.ceil(self.mean) + 1 if self.is_fixed else math.ceil(3.0 * self.mean) + 1
        for option in length_options(command, text):
            given = _value_of(command, option)
            if given is not None and given <= 1:
                continue
            count = 1 if "epoch" in option else wanted
            if self.journal.unit == "seconds" and "epoch" not in option:
                count = max(1, (given or 1000) // 10)
            if given is not None and count >= given:
                continue
            self._say(f"reproducer: whether {option} {count} is long enough")
            shorter = parse_change(f"{option} {count}")
            try:
                changed = apply_changes(command, self.environ, [shorter])
            except DoesNotApply:
                continue
            if self.still_fails(changed.command, self.best.inside):
                return

    def _cut_data(self) -> None:
        rows = max((rows_of(path) for path in self.archives()), default=0)
        if rows <= _FEWEST_ROWS_TRIED:
            return
        self._say(f"reproducer: how many of {rows} rows it needs to fail")
        command = self.best.command
        smallest(rows, lambda count: self.still_fails(command, {"npz-rows": str(count)}))

    def archives(self) -> list[Path]:
        """The .npz files that the failing run loaded."""
        failure = self.journal.failure
        folder = self.store.runs / failure.run if failure else None
        if folder is None or not folder.is_dir():
            return []
        found = {
            Path(self.cwd, file.path)
            for box in RunFolder(folder).boxes()
            for file in box.files
            if file.loader == "numpy.load" and file.path.endswith(".npz")
        }
        return sorted(path for path in found if path.is_file())

    def _run(
        self, command: tuple[str, ...], inside: dict[str, str], limit: float | None = None
    ) -> Trial:
        limit = self._limit if limit is None else limit
        if time.monotonic() >= self.deadline:
            raise _OutOfTime
        changes = [parse_change(f"{name}={value}") for name, value in inside.items()]
        number, unit = len(self.trials) + 1, self.journal.unit
        ready = self._setup.ready(changes, self.journal.profile, command)
        each = UnderWay(ready, f"reproducer: run {number}")
        task = ready.task(
            f"reproducer {self.journal.key} {number} {os.urandom(3).hex()}",
            self.stall_seconds,
            {"investigation": self.journal.key, "purpose": "reproducer"},
        )
        self._driver.run(
            each,
            task,
            self.judge.how_far,
            lambda _, distance: distance.of(unit, died=False) > limit,
        )
        try:
            if each.stopped == "interrupted":
                raise KeyboardInterrupt
            if each.stopped == "budget":
                raise _OutOfTime
            trial = self.judge.judge(each)
        finally:
            each.leave()
        self.trials.append(trial)
        return trial

    def runs_needed(self) -> int:
        """So many runs show the failure with a chance of 95 %."""
        share = min(self._share_failing, self.best.failed / max(1, self.best.runs) or 1.0)
        given = [_value_of(self.best.command, o) for o in length_options(self.best.command, "")]
        steps = next((count for count in given if count), None)
        if steps and self.journal.unit == "steps" and not self.is_fixed:
            share = min(share, -math.expm1(-steps / max(self.mean, 1e-9)))
        if share > 0.9:
            return 1
        return max(1, math.ceil(math.log(1.0 - _LIKELY_SEEN) / math.log1p(-max(share, 0.02))))


def _program_text(command: tuple[str, ...], cwd: str) -> str:
    for word in command:
        path = Path(cwd, word)
        if path.suffix == ".py" and path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _value_of(command: tuple[str, ...], option: str) -> int | None:
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name != option:
            continue
        if not equals and at + 1 < len(command):
            value = command[at + 1]
        return int(value) if value.isdigit() else None
    return None
