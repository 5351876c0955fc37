"""When a run counts as hung: the logic alone, on made-up clocks."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.recorder.stalls import judgement as stall
from rerail.recorder.stalls.judgement import Stalled, StallWatch

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Run:
    """A made-up run; time passes in tenths of a second."""

    def __init__(self, threshold: float | None) -> None:
        self.watch = StallWatch(threshold)
        self.t = 0.0
        self.steps = 0
        self.output = 0
        self.cpu = 0.0
        self.stalls: list[tuple[float, Stalled]] = []
        self.early: list[tuple[float, Stalled]] = []
        self.again: list[tuple[float, Stalled]] = []
        self.overs: list[tuple[float, float]] = []

    def live(
        self,
        seconds: float,
        *,
        step_every: float | None = None,
        line_every: float | None = None,
        cores: float = 0.0,
        tick: float = 0.5,
    ) -> None:
        begin, steps, lines = self.t, self.steps, self.output
        for number in range(round(seconds / tick)):
            self.t = begin + (number + 1) * tick
            self.cpu += cores * tick
            if step_every is not None:
                self.steps = steps + int((self.t - begin) / step_every + 1e-9)
            if line_every is not None:
                self.output = lines + 80 * int((self.t - begin) / line_every + 1e-9)
            found = self.watch.observe(self.t, self.steps, self.output, self.cpu)
            if found is not None:
                kept = (
                    self.early if found.is_early else self.again if found.is_again else self.stalls
                )
                kept.append((self.t, found))
            if self.watch.over is not None:
                self.overs.append((self.t, self.watch.over))


def test_a_given_threshold_fires_on_an_idle_deadlock() -> None:
    run = Run(10.0)
    run.live(5, step_every=0.5, cores=2)
    run.live(30)
    assert [round(t) for t, _ in run.stalls] == [15]
    assert run.stalls[0][1].was_idle


def test_a_tree_that_works_is_told_of_and_does_not_count_as_hung() -> None:
    run = Run(30.0)
    run.live(5, step_every=0.5, cores=2)
    run.live(60, cores=2.0)
    ((t, told),) = run.stalls
    assert round(t) == 35
    assert not told.was_idle and not told.counts_as_hung
    assert round(told.cores) == 2 and told.pace_seconds == 0.5


def test_a_tree_that_works_is_looked_at_again_less_and_less_often() -> None:
    run = Run(10.0)
    run.live(100, cores=1.0)
    assert [round(t) for t, _ in run.again] == [16, 23, 34, 52, 77]
    assert not any(found.counts_as_hung for _, found in run.again)


def test_a_tree_that_works_counts_as_hung_after_ten_times_the_threshold() -> None:
    run = Run(40.0)
    run.live(5, step_every=0.5, cores=2)
    run.live(500, cores=2.0)
    told, hung = (found for _, found in run.stalls)
    assert not told.counts_as_hung
    assert hung.counts_as_hung and not hung.was_idle and round(hung.silent_seconds) == 400


def test_a_short_threshold_gives_a_tree_that_works_some_minutes_all_the_same() -> None:
    run = Run(2.0)
    run.live(299, cores=1.0)
    assert [found.counts_as_hung for _, found in run.stalls] == [False]
    run.live(10, cores=1.0)
    assert [found.counts_as_hung for _, found in run.stalls] == [False, True]


def test_a_tree_that_works_and_then_stands_still_is_hung_from_there() -> None:
    run = Run(10.0)
    run.live(30, cores=1.0)
    run.live(30)
    told, hung = run.stalls
    assert not told[1].counts_as_hung
    assert hung[1].counts_as_hung and hung[1].was_idle
    assert 40 <= hung[0] <= 43


def test_bytes_that_move_are_work() -> None:
    watch = StallWatch(10.0)
    found = [watch.observe(t, 0, 0, 0.0, t * (1 << 20)) for t in range(60)]
    assert {each.counts_as_hung for each in found if each} == {False}
    watch = StallWatch(10.0)
    found = [watch.observe(t, 0, 0, 0.0, t * 100) for t in range(60)]  # heartbeats
    assert [each.counts_as_hung for each in found if each] == [True]


def test_a_given_threshold_fires_before_the_first_step() -> None:
    run = Run(10.0)
    run.live(30)
    assert len(run.stalls) == 1


def test_a_given_threshold_does_not_accuse_an_import_that_works() -> None:
    run = Run(8.0)
    run.live(30, cores=0.5)
    run.live(5, step_every=0.5, cores=0.5)
    assert not any(found.counts_as_hung for _, found in run.stalls)


def test_output_alone_is_progress() -> None:
    run = Run(10.0)
    run.live(300, line_every=5)
    assert run.stalls == []


def test_by_default_a_long_silent_preparation_is_not_a_hang() -> None:
    run = Run(None)
    run.live(45 * 60, cores=1.0)  # tokenising a corpus without a word
    run.live(300, step_every=1.0, cores=1.0)
    assert run.stalls == []


def test_by_default_an_idle_start_is_noticed_after_ten_minutes() -> None:
    run = Run(None)
    run.live(15 * 60)
    assert [round(t) for t, _ in run.stalls] == [round(stall.FIRST_PHASE_SECONDS + 0.5)]


def test_by_default_an_idle_deadlock_in_training_is_noticed_after_a_minute() -> None:
    run = Run(None)
    run.live(60, step_every=0.5, cores=2)
    run.live(180)
    assert len(run.stalls) == 1
    assert 60 <= run.stalls[0][1].silent_seconds <= 75


def test_by_default_a_few_seconds_of_fast_steps_tell_the_pace() -> None:
    run = Run(None)
    run.live(2, step_every=1 / 30, cores=1)
    run.live(180)
    assert [round(found.silent_seconds) for _, found in run.stalls] == [60]


def test_by_default_steps_that_were_all_done_before_one_look_tell_the_pace() -> None:
    run = Run(None)
    run.live(20, cores=1)  # imports
    run.live(1, step_every=1 / 60, cores=1, tick=1.0)
    run.live(180)
    ((_, found),) = run.stalls
    assert 60 <= found.silent_seconds <= 65


def test_by_default_one_step_does_not_tell_the_pace() -> None:
    run = Run(None)
    run.live(20, cores=1)
    run.live(0.5, step_every=0.5, cores=1)
    run.live(180)
    assert run.stalls == []


def test_by_default_a_spinning_deadlock_is_noticed_later_but_noticed() -> None:
    run = Run(None)
    run.live(60, step_every=0.5, cores=2)
    run.live(20 * 60, cores=2)
    assert [round(found.silent_seconds, -1) for _, found in run.stalls] == [300, 600]
    assert [found.counts_as_hung for _, found in run.stalls] == [False, True]


def test_by_default_slow_steps_have_patience_in_proportion() -> None:
    run = Run(None)
    run.live(600, step_every=30.0, cores=0.0)
    run.live(550)
    assert run.stalls == []
    run.live(200)
    assert len(run.stalls) == 1


def test_by_default_a_pause_that_was_survived_once_is_no_stall_the_next_time() -> None:
    run = Run(None)
    for _ in range(3):  # epochs with a silent validation that works for four minutes
        run.live(120, step_every=0.5, cores=2)
        run.live(240, cores=2)
    assert run.stalls == []


def test_each_stall_fires_once_and_is_over_once() -> None:
    run = Run(10.0)
    for _ in range(3):
        run.live(5, step_every=0.5)
        run.live(40)
    run.live(5, step_every=0.5)
    assert len(run.stalls) == 3
    assert len(run.overs) == 3
    assert all(silent >= 40 for _, silent in run.overs)


def test_an_idle_tree_is_looked_at_early_and_later_each_time_it_goes_on() -> None:
    run = Run(300.0)
    run.live(5, step_every=0.5)
    run.live(30)
    run.live(5, step_every=0.5)
    run.live(40)
    run.live(5, step_every=0.5)
    assert [round(t) for t, _ in run.early] == [15]
    run.live(70)
    assert len(run.early) == 2 and not run.early[1][1].counts_as_hung


def test_a_tree_that_works_is_not_looked_at_early() -> None:
    run = Run(None)
    run.live(120, cores=1.0)
    assert run.early == []


moments = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.integers(0, 3), st.integers(0, 100), st.floats(0.0, 4.0)),
    max_size=200,
)


@unhurried
@given(moments, st.floats(1.0, 100.0))
def test_an_idle_run_is_hung_exactly_when_the_silence_reaches_the_threshold(
    moments: list[tuple[float, int, int, float]], threshold: float
) -> None:
    watch = StallWatch(threshold)
    t = cpu = 0.0
    steps, output = 1, 0
    watch.observe(t, steps, output, cpu)
    last, has_fired = 0.0, False
    for passed, more_steps, more_output, cores in moments:
        t += passed
        cpu += cores * passed if more_steps or more_output else 0.0
        steps += more_steps
        output += more_output
        found = watch.observe(t, steps, output, cpu)
        if more_steps or more_output:
            assert found is None
            assert watch.over is not None or not has_fired
            last, has_fired = t, False
        else:
            assert watch.over is None
            is_hung = found is not None and not found.is_early
            assert is_hung == (not has_fired and t - last >= threshold)
            has_fired = has_fired or is_hung


@unhurried
@given(moments)
def test_without_a_threshold_nothing_fires_in_less_than_a_minute_of_silence(
    moments: list[tuple[float, int, int, float]],
) -> None:
    watch = StallWatch(None)
    t = cpu = 0.0
    steps = output = 0
    last = 0.0
    for passed, more_steps, more_output, cores in moments:
        t += passed
        cpu += cores * passed
        steps += more_steps
        output += more_output
        found = watch.observe(t, steps, output, cpu)
        if found is not None and not found.is_early:
            assert t - last >= stall.SHORTEST_SECONDS
            assert found.silent_seconds >= found.threshold_seconds
        if more_steps or more_output:
            last = t
