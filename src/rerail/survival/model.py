"""What kind of failure this is: the record that `classify` gives and everything else uses.

A model carries the lifetimes it was made from, the sentences that speak for it, and a clock:
`operational_time` turns a run's exposure into exposure that counts, on which the rate is
constant. On that clock a leak's early steps count for little, and a crash at the boundary
of an epoch counts epochs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rerail.survival.lifetimes import Lifetimes

Kind = Literal[
    "unseen",  # no crash yet
    "constant-rate",  # any step is as dangerous as any other
    "fixed-step",  # the same step every time it fails
    "wear-out",  # the longer a run, the more dangerous its next step: a leak
    "early",  # the beginning of a run is the most dangerous part
    "phase-boundary",  # at the turn of an epoch, a validation, a mining round
    "accumulation-boundary",  # at the optimizer's step after accumulated gradients
]


@dataclass(frozen=True)
class Finding:
    """One sentence for or against, with the number behind it."""

    text: str
    p_value: float | None = None  # the chance of this, or more, at a constant rate


@dataclass(frozen=True)
class FailureModel:
    kind: Kind
    lifetimes: Lifetimes
    findings: tuple[Finding, ...] = field(default=())
    resolution: float = 1.0  # two times closer than this are the same time
    step: float | None = None  # fixed-step: the latest it came
    clearance: float = 1.0  # fixed-step: how many times as far a clean run has to go, to count
    is_certain: bool = False  # fixed-step: by its nature, and not only so far
    shape: float | None = None  # wear-out, early: of the Weibull distribution
    scale: float | None = None
    period: float | None = None  # boundaries
    phase: str | None = None  # what the period is called
    offset: float = 0.0  # where in the period it comes

    @property
    def is_at_a_step(self) -> bool:
        """It has no rate: what counts are passes of its step."""
        return self.kind == "fixed-step"

    @property
    def is_every_time(self) -> bool:
        """The same step every time, and no run came past it."""
        return self.is_at_a_step and self.passes_survived == 0

    @property
    def past_the_step(self) -> float:
        """Exposure at which a run has surely passed the fixed step."""
        if self.step is None:
            raise ValueError(f"a {self.kind} failure has no fixed step")
        return self.step + self.resolution

    @property
    def clear_of_the_step(self) -> float:
        """Exposure at which a clean run says something, also if the step is a coincidence."""
        return self.past_the_step + (self.clearance - 1.0) * (self.step or 0.0)

    @property
    def passes_survived(self) -> int:
        """Fixed step: runs that came past it."""
        return sum(time > self.past_the_step for time in self.lifetimes.survivals)

    def boundaries_passed(self, exposure: float) -> int:
        if self.period is None:
            raise ValueError(f"a {self.kind} failure has no period")
        return max(0, math.floor((exposure - self.offset + self.resolution) / self.period))

    def operational_time(self, exposure: float) -> float:
        """The part of one run's exposure that counts; the same unit, a constant rate."""
        if exposure <= 0.0:
            return 0.0
        if self.kind == "fixed-step":
            assert self.step is not None
            return self.step if exposure >= self.clear_of_the_step else 0.0
        if self.period is not None:
            return self.boundaries_passed(exposure) * self.period
        if self.shape is not None and self.scale is not None:
            return float(self.scale * (exposure / self.scale) ** self.shape)
        return exposure

    def exposure_for(self, operational: float) -> float:
        """How long one run has to be to count for this much: the inverse of the clock."""
        if operational <= 0.0:
            return 0.0
        if self.kind == "fixed-step":
            return self.clear_of_the_step
        if self.period is not None:
            boundaries = math.ceil(operational / self.period - 1e-9)
            return boundaries * self.period + self.offset + self.resolution
        if self.shape is not None and self.scale is not None:
            return float(self.scale * (operational / self.scale) ** (1.0 / self.shape))
        return operational

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> FailureModel:
        fields = dict(document)
        fields["lifetimes"] = Lifetimes.of(**document["lifetimes"])
        fields["findings"] = tuple(Finding(**finding) for finding in document["findings"])
        return cls(**fields)


def constant_rate(lifetimes: Lifetimes) -> FailureModel:
    """A model for when nothing but the rate is known."""
    return FailureModel("constant-rate" if lifetimes.crashes else "unseen", lifetimes)


def fixed_step(step: float, resolution: float = 1.0) -> FailureModel:
    """A failure that is known to come at this step every time, say from its diagnosis."""
    return FailureModel(
        "fixed-step",
        Lifetimes.of([step]),
        (Finding(f"known to come at {step:g} every time"),),
        resolution=resolution,
        step=step,
        is_certain=True,
    )
