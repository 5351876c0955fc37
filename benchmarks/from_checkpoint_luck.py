"""How often is a change that does nothing "proven", if runs begin at a checkpoint?

Simulated: a failure at a constant rate, once in 2,000 steps, and a checkpoint every 100 steps. One
run has failed; `verify` tests the last checkpoint before it, takes the failure's rate from what was
seen, and asks for a clean stretch at 95 %. The change does nothing, so that every proof is wrong:
5 % may be. Beside it two other ways of counting. Ends with 1 above 5.5 %.
"""

from __future__ import annotations

import argparse
import math
import random
import sys

from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.start import Start, is_worthwhile
from rerail.experiments.trials.trial import Trial
from rerail.experiments.verification.proof import needed_for
from rerail.survival import classify

MEAN_STEPS = 2000.0
EVERY = 100
CONFIDENCE = 0.95
MOST_WRONG = 0.055


class World:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def life(self) -> int:
        return max(1, math.ceil(self._random.expovariate(1.0 / MEAN_STEPS)))

    def is_wrongly_proven(self, crashes: list[float], survivals: list[float]) -> bool:
        needed = needed_for(classify(crashes, survivals), CONFIDENCE)
        return all(self.life() > needed.exposure for _ in range(needed.runs))

    def as_verify_does(self) -> bool:
        crash = self.life()
        start = self._tested(crash, crashes := [], survivals := [])
        if start.state != "adopted":
            crashes.clear()
        before, _ = start.earlier([float(crash)], [])
        return self._after_a_repeat([*before, *crashes], survivals)

    def from_the_checkpoint_on(self) -> bool:
        """The run that failed counted from the checkpoint on wherever the failure comes from it."""
        crash = self.life()
        start = self._tested(crash, crashes := [], survivals := [])
        if start.state != "adopted":
            return self._after_a_repeat([float(crash)], [])
        return self._after_a_repeat([float(_since(crash)), *crashes], survivals)

    def without_a_test(self) -> bool:
        """Two runs that failed, each counted from its last checkpoint on."""
        lives = [float(_since(self.life())) for _ in range(2)]
        return self.is_wrongly_proven(lives, [])

    def _tested(self, crash: int, crashes: list[float], survivals: list[float]) -> Start:
        distance = float(_since(crash))
        start = Start("testing", "step.pt", "", float(crash), distance)
        if not is_worthwhile(distance, crash):
            return start.dropped("too little is saved")
        while start.state == "testing":
            limit, life = math.ceil(start.limit("steps")), self.life()
            has_crashed = life <= limit
            (crashes if has_crashed else survivals).append(float(min(life, limit)))
            steps = life - 1 if has_crashed else limit
            outcome = Trial(
                (), "crashed" if has_crashed else "stopped", Distance(steps, steps, 1.0)
            )
            start = start.after(outcome, "steps")
        return start

    def _after_a_repeat(self, crashes: list[float], survivals: list[float]) -> bool:
        """`verify` runs the unchanged command once more after an only crash."""
        if len(crashes) == 1:
            life, limit = self.life(), 5.0 * crashes[0]
            (crashes if life <= limit else survivals).append(min(float(life), limit))
        return self.is_wrongly_proven(crashes, survivals)


def _since(crash: int) -> int:
    return crash - (crash - 1) // EVERY * EVERY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    world = World(arguments.seed)
    ways = {
        "as verify counts": world.as_verify_does,
        "the failed run from its checkpoint on": world.from_the_checkpoint_on,
        "every failed run from its checkpoint on": world.without_a_test,
    }
    shares = {}
    for name, way in ways.items():
        shares[name] = sum(way() for _ in range(arguments.draws)) / arguments.draws
        print(f"{name}: wrongly proven {shares[name]:.2%} of {arguments.draws}", flush=True)
    return 0 if shares["as verify counts"] <= MOST_WRONG else 1


if __name__ == "__main__":
    sys.exit(main())
