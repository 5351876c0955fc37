"""A command that did not fail in any run: what that rules out.

In: the clean trials. Out: a sentence. How often a failure may still come follows from the clean
exposure (after n clean steps its rate is below 3 / n with 95 %), and from the count of runs where
it comes once a run, if at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.experiments.trials.trial import Trial
from rerail.survival import Hazard
from rerail.wording import counted, percent

_LEVEL = 0.95


def clean_among(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that count as clean; one whose record was lost tells nothing."""
    return [trial for trial in trials if trial.says_something and trial.outcome != "crashed"]


def clean_so_far(trials: Sequence[Trial]) -> str:
    """ "It did not fail in 3 runs of 400 steps: …"."""
    clean = clean_among(trials)
    if not clean:
        return "no run of it left a usable record."
    unit = max((trial.distance for trial in clean), key=lambda each: each.steps).unit()
    lengths = [trial.exposure(unit) for trial in clean]
    alike = min(lengths) > 0.95 * max(lengths)
    far = f"of {max(lengths):,.0f} {unit}" if alike else f"of {sum(lengths):,.0f} {unit} in all"
    between = 1.0 / Hazard(0, sum(lengths)).upper_bound(_LEVEL)
    share = 1.0 - (1.0 - _LEVEL) ** (1.0 / len(lengths))
    return (
        f"it did not fail in {counted(len(lengths), 'run')} {far}. With 95 %, a failure as frequent"
        f" as once in {between:,.0f} {unit} is ruled out, and one that comes in"
        f" {percent(share)} of the runs; a rarer one is not."
    )
