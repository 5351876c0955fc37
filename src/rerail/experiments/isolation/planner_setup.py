"""The planner, made from the journal and told of its trials.

In: what is known so far. Out: an `Investigation` that asks for the next trial, and the least
exposure that makes a trial worth its start.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rerail.catalogue import Catalogue
from rerail.changes import exclusive_groups, may_move_steps, parse_change, priors
from rerail.experiments.planner.commits import CommitSearch
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Ending, Plan, TrialResult
from rerail.experiments.trials.exposure import resolution_of
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.trial import Trial
from rerail.survival import FailureModel, Lifetimes, constant_rate

# A repeat of the first crash says whether it comes at the same place; longer is wasted on it.
_REPEAT_LENGTH = 5.0


def build_planner(
    journal: TrialJournal, confidence: float, catalogue: Catalogue, seed: int | None = None
) -> Investigation | None:
    """None if no change is left to try. `seed` draws the order of changes that are alike."""
    texts = [text for text in journal.changes if text not in journal.dropped]
    if not texts:
        return None
    if seed is not None:
        random.Random(seed).shuffle(texts)
    changes = [parse_change(text) for text in texts]
    planner = Investigation(
        texts,
        priors=priors(changes, journal.causes, catalogue),
        confidence=confidence,
        failure_model=_known_before(journal),
        exclusive=exclusive_groups(changes),
        skipped=journal.skipped,
        moving=[change.text for change in changes if may_move_steps(change)],
    )
    _tell_all(planner, journal, texts)
    return planner


def build_search(
    journal: TrialJournal, confidence: float, catalogue: Catalogue, seed: int | None = None
) -> CommitSearch | None:
    """For commits in order. None if only the newest can be run."""
    if all(text in journal.dropped for text in journal.changes):
        return None
    planner = CommitSearch(
        journal.changes, confidence, _known_before(journal), untestable=journal.dropped
    )
    _tell_all(planner, journal, journal.changes)
    return planner


def _known_before(journal: TrialJournal) -> FailureModel:
    """What runs before the investigation showed of the failure."""
    earlier_crashes, earlier_survivals = journal.comparable_earlier()
    given = constant_rate(Lifetimes.of(earlier_crashes, earlier_survivals))
    return replace(given, resolution=_resolution(journal))


def _resolution(journal: TrialJournal) -> float:
    crashes, survivals = journal.comparable_earlier()
    trials = journal.comparable_trials()
    seen = [t.exposure(journal.unit) for t in trials if t.outcome == "crashed"]
    comes_always = not survivals and all(t.outcome == "crashed" for t in trials if not t.changes)
    has_one_place = journal.failure is not None and journal.failure.has_one_place
    return resolution_of(
        journal.unit, [*crashes, *seen], at_one_place=comes_always and has_one_place
    )


def _tell_all(planner: Investigation, journal: TrialJournal, texts: Sequence[str]) -> None:
    for trial in journal.comparable_trials():
        if set(trial.took_effect) <= set(texts):
            tell(planner, trial, journal)


def tell(planner: Investigation, trial: Trial, journal: TrialJournal) -> None:
    """What came of a trial, and what it shows of the command's own length and start."""
    if not trial.says_something:
        return
    endings: dict[str, Ending] = {"crashed": "crashed", "other": "other"}
    ending = endings.get(trial.outcome, "survived")
    exposure = trial.exposure(journal.unit)
    has_finished = trial.outcome == "finished"
    planner.record(TrialResult.of(trial.took_effect, exposure, ending, has_finished))
    if has_finished:
        planner.run_length = max(planner.run_length or 0.0, exposure) or None
    distance = trial.distance
    if journal.unit != "seconds" and distance.steps_per_second:
        # What starting costs, so that many short trials are not taken for cheap.
        starting = distance.seconds - distance.steps / distance.steps_per_second
        planner.overhead = max(0.0, starting) * distance.steps_per_second


def least_exposure(journal: TrialJournal) -> float:
    """A trial that ends before the failure could have come says nothing, however often.

    Seconds include the start, before which nothing can fail, and vary with the machine's load:
    there a trial has to pass the latest crash that was seen. Of steps, the earliest will do.
    """
    unit = journal.unit
    seen = list(journal.comparable_earlier()[0])
    seen += [t.exposure(unit) for t in journal.comparable_trials() if t.outcome == "crashed"]
    if not seen:
        return 0.0
    return 1.2 * max(seen) + 0.5 if unit == "seconds" else min(seen) + 1.0


def next_plan(
    planner: Investigation,
    journal: TrialJournal,
    under_way: Sequence[Plan],
    *,
    beside: Sequence[Plan],
    seek_alternatives: bool,
) -> Plan | None:
    """What the planner asks for, for as long as a trial of this command has to run. `beside`: of
    those under way the ones that the planner counts, with how far they came."""
    repeat = _plan_to_repeat(planner, journal, under_way)
    if repeat is not None:
        return repeat
    plan = planner.next_trial(running=beside, seek_alternatives=seek_alternatives)
    if plan is None:
        return None
    least = least_exposure(journal)
    if not planner.failure_model.is_at_a_step:
        # A run costs its start: once it runs, let it run about as long as the start took. Past a
        # step at which it always fails there is nothing more to learn.
        least = max(least, planner.overhead)
    return replace(plan, exposure_limit=max(plan.exposure_limit, least))


def _plan_to_repeat(
    planner: Investigation, journal: TrialJournal, under_way: Sequence[Plan]
) -> Plan | None:
    """Without any change again, until the failure has come here, and twice in all."""
    crashes = list(journal.comparable_earlier()[0])
    crashes += [t.exposure for t in planner.trials if t.outcome == "crashed"]
    seen_here = any(t.outcome == "crashed" for t in planner.trials)
    repeats = sum(not trial.changes for trial in journal.comparable_trials())
    is_running = any(not plan.changes for plan in under_way)
    if is_running or not crashes:
        return None
    is_known = (seen_here and len(crashes) >= 2) or repeats >= 2
    if is_known and not _is_place_in_doubt(planner, journal, crashes):
        return None
    return Plan((), _REPEAT_LENGTH * max(crashes), "whether it comes back, and where")


def _is_place_in_doubt(
    planner: Investigation, journal: TrialJournal, crashes: Sequence[float]
) -> bool:
    """Whether two failures came at about one time, and a third would tell whether that is chance.

    By the clock two that agree may be chance; a rate takes many more trials than a place.
    """
    return (
        len(crashes) == 2
        and journal.unit == "seconds"
        and not planner.failure_model.is_at_a_step
        and all(trial.outcome == "crashed" for trial in planner.trials)
        and not journal.comparable_earlier()[1]
        and max(crashes) - min(crashes) <= _resolution(journal)
    )


def mean_exposure(planner: Investigation | None, journal: TrialJournal) -> float:
    """How far runs come between two failures, by all trials so far."""
    crashes = sum(trial.outcome == "crashed" for trial in journal.comparable_trials()) or 1
    return (planner.exposure_used if planner else 0.0) / crashes
