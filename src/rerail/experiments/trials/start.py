"""Do trials begin at a checkpoint? What was seen from there comes in, a decision goes out.

A failure at step 2,000 costs every trial 2,000 steps, or the 40 since the last checkpoint, if it
comes from there too. That is tested before it is relied on, and these are the rules. Pure: files
and processes are elsewhere (`from_checkpoint`). Why the steps before a checkpoint count for nobody:
docs/design/what-does-a-trial-from-a-checkpoint-say.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rerail.experiments.trials.exposure import Unit, exposure_in_words
from rerail.experiments.trials.trial import Trial

# The unchanged command is given this many times the way from the checkpoint to the failure.
SEVERAL = 5.0
_FEW_STEPS = 20.0
_START_SECONDS = 30.0  # imports and the loading of data, which come before the first step
# A checkpoint that lies nearer to the beginning than to the failure saves less than it risks.
_WORTHWHILE_SHARE = 0.5
# By the clock it is known to a step or two which step a checkpoint was written after.
_STEPS_APART = 2.0
_SHARE_APART = 0.02
_SECONDS_APART = 0.2
_SECONDS_SHARE_APART = 0.1
MOST_REFUSED = 3

State = Literal["testing", "adopted", "dropped"]


@dataclass(frozen=True)
class Start:
    """What is in `start` of the journal."""

    state: State
    checkpoint: str = ""  # as the pattern spells it
    identity: str = ""  # its size and time: another one of the same name is another start
    crash: float = 0.0  # how far the run that failed had come
    distance: float | None = None  # of that, since the checkpoint; None: not known
    seen: tuple[float, ...] = ()  # how far from there it failed
    skipped: float | None = None  # if it fails at one place: what lies before the checkpoint
    why: str = ""  # trials begin anew

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Start:
        return cls(**{**document, "seen": tuple(document["seen"])})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "seen": list(self.seen)}

    @property
    def begins_at(self) -> str:
        """What a trial that starts now begins at: its checkpoint, or nothing."""
        return self.checkpoint if self.state != "dropped" else ""

    @property
    def before_checkpoint(self) -> float | None:
        """How much of the way lies before the checkpoint; None: not known."""
        if self.skipped is not None:
            return self.skipped
        return None if self.distance is None else self.crash - self.distance

    def limit(self, unit: Unit) -> float:
        """How long the unchanged command is given to fail from there."""
        if self.seen:
            return 2.0 * self.seen[0] + _FEW_STEPS
        if self.distance is None:
            return self.crash
        least = _START_SECONDS if unit == "seconds" else _FEW_STEPS
        return SEVERAL * self.distance + least

    def after(self, trial: Trial, unit: Unit) -> Start:
        """What a run of the unchanged command from the checkpoint shows."""
        if trial.outcome == "crashed":
            return self._failed_after(trial.exposure(unit), unit)
        if trial.outcome in ("finished", "stopped"):
            if self.seen:
                return replace(self, state="adopted")  # it came from there once: at random
            if trial.outcome == "stopped" and trial.exposure(unit) < self.limit(unit):
                return self  # somebody interrupted it
            return self.dropped(self._clean_words(trial.exposure(unit), unit))
        return self.dropped(f"a run from there ended otherwise: {trial.summary or trial.cause}")

    def dropped(self, why: str) -> Start:
        return replace(self, state="dropped", why=why)

    def earlier(
        self, crashes: Sequence[float], survivals: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """What runs from the very beginning say about trials that begin here.

        At one place: each is counted from the checkpoint on, and who never got there says nothing.
        At random: the steps that were run count, wherever they were run.
        """
        if self.state != "adopted" or self.skipped is None:
            return list(crashes), list(survivals)
        since = [[each - self.skipped for each in lives] for lives in (crashes, survivals)]
        return [each for each in since[0] if each > 0.0], [each for each in since[1] if each > 0.0]

    def _failed_after(self, exposure: float, unit: Unit) -> Start:
        found = replace(self, seen=(*self.seen, exposure))
        expected = self.seen[0] if self.seen else self.distance
        # By the clock alone a start takes longer or shorter: two runs from there can be compared.
        can_tell = bool(self.seen) or unit != "seconds"
        if can_tell and expected is not None and _is_same_place(exposure, expected, unit):
            return replace(found, state="adopted", skipped=self.crash - exposure)
        return replace(found, state="adopted") if self.seen else found

    def _clean_words(self, exposure: float, unit: Unit) -> str:
        clean = f"from {self.checkpoint} it stayed clean for {exposure_in_words(exposure, unit)}"
        if self.distance:
            times = exposure / self.distance
            clean += f", {times:.1f} times as far as it had come when it failed"
        return f"{clean}: it comes at random, or of what builds up from the very beginning"


def about_the_start(document: Mapping[str, Any]) -> list[str]:
    """For the summary of an answer that has a `start`."""
    found = document.get("start")
    if not found:
        return []
    if found["state"] != "adopted":
        return [f"Trials began anew: {found['why']}."] if found["why"] else []
    crash = exposure_in_words(found["crash"], document["unit"])
    seen = exposure_in_words(found["seen"][0], document["unit"])
    return [
        f"Trials began at {found['checkpoint']}: from there it fails after {seen}, from the very"
        f" beginning after {crash}."
    ]


def _is_same_place(one: float, other: float, unit: Unit) -> bool:
    if unit == "seconds":
        return abs(one - other) <= max(_SECONDS_APART, _SECONDS_SHARE_APART * max(one, other))
    return abs(one - other) <= max(_STEPS_APART, _SHARE_APART * other)


def is_worthwhile(distance: float | None, crash: float) -> bool:
    """Whether enough of the way is saved; nobody knows before it is tried, if nothing is known."""
    return distance is None or distance <= _WORTHWHILE_SHARE * crash
