"""What clean runs of a command that never failed rule out."""

from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.never_failed import clean_so_far
from rerail.experiments.trials.trial import Trial


def test_three_clean_runs_rule_out_a_failure_as_frequent_as_once_a_run():
    clean = [Trial((), "finished", Distance(400, 400, 20.0)) for _ in range(3)]
    said = clean_so_far(clean)
    assert "3 runs of 400 steps" in said
    assert "once in 401 steps" in said or "once in 400 steps" in said


def test_runs_of_different_lengths_are_added_up_and_a_lost_one_does_not_count():
    trials = [
        Trial((), "finished", Distance(0, 0, 10.0)),
        Trial((), "finished", Distance(0, 0, 50.0)),
        Trial((), "lost", Distance(0, 0, 99.0), counts=False),
    ]
    assert "2 runs of 60 seconds in all" in clean_so_far(trials)
    assert clean_so_far(trials[2:]) == "no run of it left a usable record."
