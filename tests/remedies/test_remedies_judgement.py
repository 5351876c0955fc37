"""What is started again, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.checkpoints import StepClock
from rerail.diagnosis.result import Candidate
from rerail.experiments.trials.failure import Failure
from rerail.records import Observation
from rerail.remedies.restart.death import Death
from rerail.remedies.restart.judgement import Attempt, why_leave, why_not_again, why_stop


def death(cause: str = "native-segfault", probability: float = 0.9, **fields: object) -> Death:
    failure = Failure(cause, "signal", "SIGSEGV", None, None, "killed by SIGSEGV", "run")
    candidates = (Candidate(load_catalogue()[cause], probability),)
    made = Death("run", failure, {cause: probability}, candidates)
    return replace(made, **fields)  # type: ignore[arg-type]


def attempt(number: int, ended: Death | None, **fields: object) -> Attempt:
    return replace(Attempt(number, f"run-{number}", death=ended), **fields)  # type: ignore[arg-type]


def stops(*attempts: Attempt, new_remedy: bool = False, restarts: int = 5) -> str | None:
    return why_stop(attempts, has_new_remedy=new_remedy, restarts=restarts)


def anew(last: Attempt) -> str | None:
    """There is no checkpoint to go on from."""
    return why_not_again([last], has_new_remedy=False, resumes=False)


def test_a_first_death_is_followed_by_another_attempt() -> None:
    assert stops(attempt(1, death(counted_steps=40))) is None


def test_restarts_are_used_up() -> None:
    assert "used up" in str(stops(attempt(3, death()), restarts=2))


def test_what_was_stopped_stays_stopped_even_with_a_remedy() -> None:
    stopped = attempt(1, death(stopped_by="SIGTERM from slurmstepd"))
    assert "slurmstepd" in str(stops(stopped, new_remedy=True))


def test_the_same_step_twice_is_enough() -> None:
    first, second = attempt(1, death(counted_steps=40)), attempt(2, death(counted_steps=40))
    assert "same place" in str(stops(first, second))
    assert stops(first, second, new_remedy=True) is None


def test_another_step_or_another_cause_is_something_else() -> None:
    first = attempt(1, death(counted_steps=40))
    assert stops(first, attempt(2, death(counted_steps=90))) is None
    assert stops(first, attempt(2, death("loader-hang", counted_steps=40))) is None


def test_steps_after_a_checkpoint_are_reckoned_from_the_beginning() -> None:
    first = attempt(1, death(counted_steps=40))
    resumed = {"checkpoint": Path("step-30.pt"), "base_step": 30}
    assert "same place" in str(stops(first, attempt(2, death(counted_steps=10), **resumed)))
    assert stops(first, attempt(2, death(counted_steps=40), **resumed)) is None
    # It dies at once: the checkpoint was written in the step before.
    at_once = {"checkpoint": Path("step-40.pt"), "base_step": 40}
    assert "same place" in str(stops(first, attempt(2, death(), **at_once)))


def test_two_deaths_near_each_other_are_a_coincidence_where_it_also_came_elsewhere() -> None:
    """Each attempt begins shortly before the last death, and it comes at random."""
    first = attempt(1, death(counted_steps=24))
    second = attempt(2, death(counted_steps=81), checkpoint=Path("step-20.pt"), base_step=20)
    third = attempt(3, death(counted_steps=2), checkpoint=Path("step-100.pt"), base_step=100)
    assert stops(first, second, third) is None
    fourth = replace(third, number=4)
    assert "attempts 2 and 3" in str(stops(first, second, third, fourth))
    assert third.died_where == "at step 102"


def test_where_the_checkpoint_lies_unknown_counts_compare_only_if_both_began_there() -> None:
    unknown = {"checkpoint": Path("old.pt"), "base_step": None}
    first = attempt(1, death(counted_steps=40))
    second = attempt(2, death(counted_steps=40), **unknown)
    assert stops(first, second) is None
    third = attempt(3, death(counted_steps=40), **unknown)
    assert "attempt 2" in str(stops(first, second, third))


def test_printed_steps_tell_where_none_are_counted() -> None:
    first = attempt(1, death(printed_step=40))
    resumed = {"checkpoint": Path("step-30.pt"), "base_step": None}
    assert "same place" in str(stops(first, attempt(2, death(printed_step=40), **resumed)))
    assert stops(first, attempt(2, death(printed_step=70), **resumed)) is None


def test_seconds_tell_where_there_are_no_steps() -> None:
    first = attempt(1, death(elapsed_seconds=60.0))
    assert "same place" in str(stops(first, attempt(2, death(elapsed_seconds=61.0))))
    assert stops(first, attempt(2, death(elapsed_seconds=30.0))) is None


@pytest.mark.parametrize("cause", ["shape-mismatch", "dependency-missing", "bad-config"])
def test_the_programs_own_errors_come_back(cause: str) -> None:
    assert "every time" in str(stops(attempt(1, death(cause))))
    assert stops(attempt(1, death(cause, probability=0.6))) is None


def test_what_needs_something_changed_is_given_up_without_it() -> None:
    full = attempt(1, death("disk-full"))
    assert "no remedy" in str(stops(full))
    assert stops(full, new_remedy=True) is None


@pytest.mark.parametrize("cause", ["gpu-oom", "host-memory-leak", "loss-not-finite"])
def test_what_a_checkpoint_may_get_past_is_not_begun_anew(cause: str) -> None:
    last = attempt(1, death(cause))
    assert stops(last) is None
    assert f"begun anew it would die of {cause}" in str(anew(last))
    assert why_not_again([last], has_new_remedy=True, resumes=False) is None
    assert anew(attempt(1, death(cause, probability=0.6))) is None
    assert anew(attempt(1, death("native-segfault"))) is None


def test_where_it_was_killed_from_outside_says_nothing_about_the_program() -> None:
    killed = [attempt(n, death("killed-from-outside", counted_steps=8)) for n in (1, 2, 3)]
    assert stops(*killed) is None
    assert "used up" in str(stops(*killed, restarts=2))


def test_the_cause_of_a_sigkill_must_be_sure_unless_the_kernel_recorded_it() -> None:
    kernel = Observation("oom-kill", "The kernel killed it.", "kernel:1")
    failure = replace(death().failure, signal="SIGKILL", cause="host-oom")
    unsure = death("host-oom", 0.6, failure=failure)
    assert unsure.leading is None
    assert death("host-oom", 0.9, failure=failure).leading is not None
    recorded = Candidate(load_catalogue()["host-oom"], 0.6, speaks_for=(kernel,))
    assert replace(unsure, candidates=(recorded,)).leading is recorded


def test_three_recorded_deaths_at_one_step_need_no_fourth() -> None:
    assert "3 recorded runs" in str(stops(attempt(1, death(deaths_at_this_step=3))))
    assert stops(attempt(1, death(deaths_at_this_step=2))) is None


def test_a_checkpoint_that_does_not_load_leaves_older_ones() -> None:
    refused = attempt(2, death("checkpoint-incompatible"), checkpoint=Path("a.pt"))
    assert stops(attempt(1, death(counted_steps=9)), refused) is None
    assert "every time" in str(stops(attempt(1, death("checkpoint-incompatible"))))


def test_the_clock_tells_how_many_steps_lay_before_a_moment() -> None:
    clock = StepClock(((8, 100.0), (9, 101.0), (10, 102.0)))
    assert clock.step_at(101.5) == 9
    assert clock.step_at(500.0) == 10
    assert clock.step_at(99.0) is None
    assert StepClock().step_at(99.0) is None


def test_a_node_that_failed_twice_by_itself_leaves_an_elastic_job() -> None:
    first, second = attempt(1, death(counted_steps=40)), attempt(2, death(counted_steps=90))
    assert why_leave([first], 2, 3) is None
    assert why_leave([first, second], 2, 3) == (
        "this node has failed 2 times by itself, and the job can go on without it (--nnodes 2:3)"
    )
    assert why_leave([first, second], None, 3) is None, "the others would wait for it"
    echo = attempt(2, death("peer-died", counted_steps=90))
    assert why_leave([first, echo], 2, 3) is None
