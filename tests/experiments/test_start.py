"""Whether trials begin at a checkpoint, and what runs from the beginning then say."""

from __future__ import annotations

from typing import Any

import pytest

from rerail.changes import parse_change
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import TrialResult
from rerail.experiments.planner.posterior import Moved, Posterior
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.start import Start, is_worthwhile
from rerail.experiments.trials.trial import Trial, TrialOutcome
from rerail.survival import Lifetimes, classify

FAILED = Start("testing", "out/step-1900.pt", "1 2 3", crash=1960.0, distance=60.0)


def trial(outcome: TrialOutcome, steps: int, **more: Any) -> Trial:
    """Steps done: a crash is charged the one that it died in too."""
    return Trial((), outcome, Distance(steps, steps, steps / 10), **more)


def test_a_failure_at_the_same_place_is_counted_from_the_checkpoint_on() -> None:
    found = FAILED.after(trial("crashed", 59), "steps")
    assert found.state == "adopted" and found.skipped == 1900.0
    assert found.earlier([1960.0], [1800.0, 1990.0]) == ([60.0], [90.0])
    model = classify([60.0, *found.earlier([1960.0], [])[0]])
    assert model.kind == "fixed-step" and model.step == 60.0


def test_a_clock_that_is_a_step_off_does_not_hide_the_same_place() -> None:
    found = FAILED.after(trial("crashed", 60), "steps")
    assert found.state == "adopted"
    assert found.earlier([1960.0], [])[0] == list(found.seen)


def test_a_failure_at_random_keeps_the_whole_life_of_earlier_runs() -> None:
    """The checkpoint lies close before the crash because the crash chose it. A life counted from
    there would make one failure in 2,000 steps one in 60."""
    found = FAILED.after(trial("crashed", 30), "steps")
    assert found.state == "testing"  # elsewhere: once more
    found = found.after(trial("crashed", 71), "steps")
    assert found.state == "adopted" and found.skipped is None
    assert found.earlier([1960.0], []) == ([1960.0], [])


def test_two_runs_that_agree_tell_the_place_where_the_distance_is_not_known() -> None:
    start = Start("testing", "out/last.pt", crash=1960.0)
    assert start.limit("steps") == 1960.0  # as long as a run anew, at most
    found = start.after(trial("crashed", 59), "steps").after(trial("crashed", 59), "steps")
    assert found.state == "adopted" and found.skipped == 1900.0


def test_by_the_clock_alone_two_runs_from_there_are_compared() -> None:
    start = Start("testing", "out/last.pt", crash=100.0, distance=4.0)
    once = start.after(trial("crashed", 40), "seconds")
    assert once.state == "testing"  # 4 s, and a start that takes as long as it takes
    assert once.after(trial("crashed", 42), "seconds").skipped == pytest.approx(95.8)


def test_clean_for_several_times_the_distance_is_a_reason_to_begin_anew() -> None:
    limit = FAILED.limit("steps")
    assert limit >= 5 * 60
    found = FAILED.after(trial("stopped", int(limit)), "steps")
    assert found.state == "dropped" and found.begins_at == ""
    assert "stayed clean for 320 steps, 5.3 times as far" in found.why
    assert found.earlier([1960.0], []) == ([1960.0], [])


def test_an_interruption_decides_nothing() -> None:
    assert FAILED.after(trial("stopped", 100), "steps") == FAILED


def test_a_checkpoint_near_the_beginning_saves_too_little() -> None:
    assert is_worthwhile(60.0, 1960.0) and is_worthwhile(None, 1960.0)
    assert not is_worthwhile(1500.0, 1960.0)


def test_what_is_kept_is_read_back() -> None:
    found = FAILED.after(trial("crashed", 59), "steps")
    assert Start.from_json(found.to_json()) == found


@pytest.fixture
def journal(tmp_path: Any) -> TrialJournal:
    made = TrialJournal.open(tmp_path, ["train"], "/", [], is_fresh=True)
    made.unit, made.earlier_crashes, made.earlier_survivals = "steps", [1960.0], []
    return made


def test_trials_are_compared_with_those_that_began_at_the_same_place(journal: TrialJournal) -> None:
    anew, there = trial("finished", 3000), trial("crashed", 59, checkpoint=FAILED.checkpoint)
    journal.trials = [anew, there]
    journal.start = FAILED.after(there, "steps").to_json()
    assert journal.comparable_trials() == [there]
    assert journal.comparable_earlier() == ([60.0], [])
    assert journal.skipped == 1900.0


def test_clean_steps_from_a_checkpoint_that_was_not_kept_still_count(journal: TrialJournal) -> None:
    """Otherwise only those starts would count from which it happened to fail."""
    clean = trial("finished", 320, checkpoint=FAILED.checkpoint)
    journal.trials = [clean, trial("crashed", 2500)]
    journal.start = FAILED.dropped("clean").to_json()
    found = journal.comparable_trials()
    assert [each.exposure("steps") for each in found] == [320.0, 2501.0]
    assert found[0].outcome == "stopped"  # from there to the end is no whole run
    assert journal.comparable_earlier() == ([1960.0], [])


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ("--batch-size 4", True),
        ("train.accum=8", True),
        ("--lr=1e-4", True),
        ("npz-rows=1000", True),
        ("--workers 0", False),
        ("dataloader-workers=0", False),
        ("OMP_NUM_THREADS=1", False),
        ("--optimizer sgd", False),
    ],
)
def test_what_may_move_a_failure_has_to_be_clean_three_times_as_far_from_the_very_beginning(
    change: str, may: bool
) -> None:
    from rerail.changes import may_move_steps

    assert may_move_steps(parse_change(change)) is may
    model = classify([60.0, 60.0])
    posterior = Posterior([], model, Lifetimes.of([60.0, 60.0]), Moved(1900.0, 1 if may else 0))
    assert posterior.far_beyond(1) == (3 * 1961.0 - 1900.0 if may else 3 * 61.0)


@pytest.mark.parametrize(("change", "is_sure"), [("--batch-size 4", False), ("GOOD=1", True)])
def test_clean_past_the_place_is_no_proof_where_the_change_may_only_delay_it(
    change: str, is_sure: bool
) -> None:
    moving = [change] if "batch" in change else []
    history = classify([60.0, 60.0])
    asked = Investigation([change], failure_model=history, skipped=1900.0, moving=moving)
    asked.record(TrialResult.of([], 60.0, "crashed"))
    for _ in range(12):
        asked.record(TrialResult.of([change], 250.0, "survived"))
    assert (asked.verdict().status == "confirmed") is is_sure
    # From the very beginning it would have come at 1960, and at twice that with half a batch.
    if not is_sure:
        plan = asked.next_trial()
        assert plan is not None and plan.exposure_limit >= 3 * 1961.0 - 1900.0
        asked.record(TrialResult.of([change], plan.exposure_limit, "survived"))
        assert asked.verdict().status == "confirmed"
