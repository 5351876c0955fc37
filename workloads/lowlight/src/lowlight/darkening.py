"""The darkening-and-noise model: what a good picture would have been with too little light.

Comes in: a picture, a random generator. Goes out: the same scene as a camera would have stored it.

    light    = picture ^ gamma                          gamma from 2.0 to 2.4, to linear light
    light    = light · exposure · balance               exposure 1/20 to 1/5, balance ±8 % a channel
    counted  ~ Poisson(light · full_well) / full_well   full_well 1,000 to 4,000 electrons
    read     = counted + Normal(0, read_noise)          0.0005 to 0.002 of full scale
    stored   = round(255 · read ^ (1 / gamma)) / 255    eight bits

Promises: the same generator state gives the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]  # (height, width, 3)
Values = NDArray[np.float32]  # (height, width, 3), 0 to 1


@dataclass(frozen=True)
class Darkening:
    """One draw of the model's parameters, so that a picture can be darkened evenly."""

    gamma: float
    exposure: float
    balance: tuple[float, float, float]
    full_well_electrons: float
    read_noise: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> Darkening:
        return cls(
            gamma=random.uniform(2.0, 2.4),
            exposure=_between(random, 1 / 20, 1 / 5),
            balance=tuple(random.uniform(0.92, 1.08, 3)),
            full_well_electrons=_between(random, 1000, 4000),
            read_noise=_between(random, 0.0005, 0.002),
        )

    def apply(self, bright: Values, random: np.random.Generator) -> Values:
        light = bright.astype(np.float64) ** self.gamma * self.exposure * np.array(self.balance)
        counted = random.poisson(light * self.full_well_electrons) / self.full_well_electrons
        read = counted + random.normal(0.0, self.read_noise, counted.shape)
        stored = np.clip(read, 0, 1) ** (1 / self.gamma)
        return (np.round(stored * 255) / 255).astype(np.float32)


def darken(bright: Values, random: np.random.Generator) -> Values:
    return Darkening.draw(random).apply(bright, random)


def _between(random: np.random.Generator, low: float, high: float) -> float:
    """Even in ratio, not in difference: half as bright is as likely as twice as bright."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))
