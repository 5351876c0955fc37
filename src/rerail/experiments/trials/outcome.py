"""What came of a trial? The one judge of `isolate` and `verify`.

In: the record of a run, the failure that is looked for, and when rerail stopped the run, if it did.
Out: a `Judged`: the outcome, and how far the run came without the failure.

Time in which a program that used to compute does nothing is no life without the failure: it is
taken off. A run that was stopped after nothing else for two fifths of its time is stuck: a change
that makes a program hang must not be taken for one that makes it live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rerail.changes import Profile
from rerail.experiments.trials.exposure import Distance, Unit, idle_seconds, measure
from rerail.experiments.trials.failure import Diagnostician, Ending, Failure, told_to_end
from rerail.experiments.trials.trial import TrialOutcome, died_before
from rerail.records import VitalsRow
from rerail.store import RunFolder

# A program that is busy for less than a quarter of its time waits often and long anyway. One that
# is busier pauses too (a checkpoint is written, an epoch begins), for less than two seconds, or for
# a part of its time that costs little when it is taken off.
_BUSY_SHARE = 0.25
_IDLE_SECONDS = 2.0
_STUCK_SHARE = 0.4


@dataclass(frozen=True)
class Wanted:
    """The failure that is looked for, and what the run that showed it was like."""

    failure: Failure | None = None  # None: it was not seen yet
    unit: Unit = "seconds"
    profile: Profile = field(default_factory=Profile)
    takes_any: bool = True  # while it was not seen, any failure is the one

    @property
    def is_a_hang(self) -> bool:
        return self.failure is not None and self.failure.is_a_hang

    @property
    def was_busy(self) -> bool:
        """Whether the use of the processor tells about its life: steps and batches tell better."""
        return self.unit == "seconds" and self.profile.busy_share >= _BUSY_SHARE


@dataclass(frozen=True)
class Judged:
    outcome: TrialOutcome
    distance: Distance
    ending: Ending | None  # None: rerail stopped it
    summary: str

    @property
    def failure(self) -> Failure | None:
        """Whatever it died of."""
        return self.ending.failure if self.ending is not None else None


def judge_run(
    folder: RunFolder,
    wanted: Wanted,
    diagnostician: Diagnostician,
    seconds: float,
    stopped_ns: int | None = None,
) -> Judged:
    """Judge a run that is over and took `seconds`."""
    outcome, ending = _outcome_of(folder, wanted, diagnostician, stopped_ns)
    if outcome in ("crashed", "finished"):
        return Judged(outcome, measure(folder, seconds), ending, _summary(outcome, ending))
    idle = _idle_at_the_end(folder.merged_vitals(), wanted)
    distance = _lived(folder, wanted, seconds, idle)
    if outcome == "stopped" and idle and idle >= _STUCK_SHARE * seconds:
        return Judged("other", distance, None, f"the command did nothing any more for {idle:.0f} s")
    return Judged(outcome, distance, ending, _summary(outcome, ending))


def lived_so_far(folder: RunFolder, wanted: Wanted, seconds: float) -> Distance:
    """How far a run came that is under way, and clean so far."""
    return _lived(folder, wanted, seconds, _idle_at_the_end(folder.recent_vitals(), wanted))


def _lived(folder: RunFolder, wanted: Wanted, seconds: float, idle: float) -> Distance:
    distance = measure(folder, seconds, may_hang=wanted.is_a_hang)
    return replace(distance, seconds=max(0.001, distance.seconds - idle)) if idle else distance


def _idle_at_the_end(rows: Sequence[VitalsRow], wanted: Wanted) -> float:
    """How long it has done nothing, if it ought to be busy; a hang that is looked for is silent."""
    if wanted.is_a_hang or not wanted.was_busy:
        return 0.0
    idle = idle_seconds(rows)
    return idle if idle >= _IDLE_SECONDS else 0.0


def _outcome_of(
    folder: RunFolder, wanted: Wanted, diagnostician: Diagnostician, stopped_ns: int | None
) -> tuple[TrialOutcome, Ending | None]:
    was_stopped = stopped_ns is not None
    if stopped_ns is not None and not died_before(folder, stopped_ns):
        return "stopped", None
    ending = diagnostician.ending(folder)
    if ending.failure is None:
        return ("stopped", None) if was_stopped else ("finished", ending)
    known = wanted.failure
    if known is not None and known.is_same_as(ending.failure, ending.rivals):
        return "crashed", ending
    # Helpers fail all the time, and a run that somebody told to end died of nothing: what counts
    # then is the failure that is looked for.
    if was_stopped:
        return "stopped", None
    if known is None and wanted.takes_any:
        return "crashed", ending
    return ("stopped", None) if told_to_end(folder) is not None else ("other", ending)


def _summary(outcome: TrialOutcome, ending: Ending | None) -> str:
    if ending is not None and ending.failure is not None:
        return ending.failure.summary
    return "ended well" if outcome == "finished" else "stopped by rerail"
