"""When a fix is proven: the arithmetic, and what the proof costs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rerail.experiments.verification.cost import Cost, compare
from rerail.experiments.verification.proof import luck_of, needed_for
from rerail.experiments.verification.trace import Trace
from rerail.survival import classify, fixed_step, probability_of_luck

crash_times = st.lists(st.floats(1.0, 1e5), min_size=1, max_size=5)


def test_two_crashes_at_one_step_need_one_run_past_it() -> None:
    needed = needed_for(classify([40, 40]), 0.95)
    assert (needed.exposure, needed.runs) == (41, 1)


def test_a_coincidence_is_not_taken_for_certainty() -> None:
    """Of two random crashes within ten steps, one in fifteen agree: more is asked then."""
    model = classify([24, 24])
    assert probability_of_luck(model, [25]) < luck_of(model, [25]) < 0.05
    assert (needed_for(model, 0.95).exposure, needed_for(model, 0.95).runs) == (25, 1)
    longer = needed_for(model, 0.999)
    assert longer.exposure > 25 and longer.runs > 1 and "by chance" in longer.reason
    assert luck_of(model, [longer.exposure] * longer.runs) == pytest.approx(0.001, rel=0.05)


def test_a_failure_known_by_its_nature_needs_one_pass() -> None:
    assert luck_of(fixed_step(40), [41]) == 0.0
    assert needed_for(fixed_step(40), 0.9999).runs == 1


def test_the_incident() -> None:
    """Crashes at 117 and 927: 1,950 clean batches are luck in 12 % of cases."""
    model = classify([117, 927])
    assert luck_of(model, [1950]) == pytest.approx(0.1215, abs=0.001)
    assert needed_for(model, 0.95).exposure == pytest.approx(3624, abs=1)


def test_nothing_is_proven_of_what_was_never_seen() -> None:
    assert not needed_for(classify([], [100.0]), 0.95).is_possible


def test_runs_that_are_too_short_are_said_to_be() -> None:
    model = classify([500, 530, 560, 590])
    assert model.kind == "wear-out"
    needed = needed_for(model, 0.95, run_length=100)
    assert not needed.is_possible and "too short" in needed.reason
    assert needed_for(classify([40, 40, 40]), 0.95, run_length=20).is_possible is False


@settings(deadline=None)
@given(crash_times, st.sampled_from([0.6, 0.9, 0.95, 0.99]), st.floats(1.0, 30.0))
@example([1.0, 1.5, 1.5], 0.6, 1.0)  # a run of the whole length is just enough
def test_what_is_said_to_be_needed_is_enough(
    crashes: list[float], confidence: float, share: float
) -> None:
    model = classify(crashes)
    for length in (None, share * max(crashes)):
        needed = needed_for(model, confidence, length)
        if not needed.is_possible:
            continue
        assert luck_of(model, [needed.exposure] * needed.runs) <= 1.0 - confidence + 1e-9
        assert length is None or needed.exposure <= length * 1.0000001 or model.is_every_time


@settings(deadline=None)
@given(crash_times, st.lists(st.floats(0.0, 1e6), max_size=4), st.floats(0.0, 1e6))
def test_luck_is_a_probability_and_more_clean_runs_never_raise_it(
    crashes: list[float], clean: list[float], more: float
) -> None:
    model = classify(crashes)
    luck = luck_of(model, clean)
    assert 0.0 <= luck <= 1.0
    assert luck_of(model, [*clean, more]) <= luck + 1e-12


def trace(losses: list[float], seconds: float = 0.1, rss: int = 100 << 20) -> Trace:
    made = Trace("run")
    for step, loss in enumerate(losses, start=1):
        made.losses[step] = loss
        made.done_t_seconds[step] = step * seconds
    made.rss = [(0.0, rss // 2), (seconds, rss), (1e9, 10 * rss)]
    return made


def test_costs_of_equal_steps() -> None:
    losses = [1.0 / step for step in range(1, 31)]
    cost = compare([trace(losses)], [trace([*losses, 9.0], seconds=0.2, rss=150 << 20)])
    assert cost.throughput is not None and cost.memory is not None and cost.loss is not None
    assert cost.throughput.change == pytest.approx(-0.5)
    assert cost.memory.before_bytes == 100 << 20 and cost.memory.after_bytes == 150 << 20
    assert cost.loss.differs_from_step is None and cost.loss.last_step == 30
    text = " ".join(cost.lines())
    assert "-50 %" in text and "equal to the last bit over steps 1 to 30" in text


def paced(seconds: list[float]) -> Trace:
    made = Trace("run")
    for step in range(1, len(seconds) + 1):
        made.done_t_seconds[step] = sum(seconds[:step])
    return made


def test_a_throughput_is_told_only_where_no_change_is_ruled_out() -> None:
    rng = random.Random(1)

    def steps(count: int, mean: float) -> Trace:
        return paced([mean * rng.uniform(0.8, 1.2) for _ in range(count)])

    few = compare([steps(12, 0.1)], [steps(300, 0.2)])
    assert few.throughput is None and "too few steps to tell" in few.lines()[0]
    same = compare([steps(300, 0.1)], [steps(300, 0.101)]).throughput
    assert same is not None and same.lowest_change < 0.0 < same.highest_change
    assert "no change that can be told: between -" in Cost(same).lines()[0]
    slower = compare([steps(300, 0.1)], [steps(300, 0.13)]).throughput
    assert slower is not None and slower.highest_change < 0.0
    assert slower.lowest_change < slower.change < slower.highest_change
    noisy = compare([steps(25, 0.1)], [steps(25, 0.11)]).throughput
    assert noisy is not None and not noisy.can_be_told


def test_memory_is_compared_only_where_it_was_counted_alike() -> None:
    """A recording that counts shared pages in every worker says nothing about a new one."""
    losses = [1.0] * 10
    older = trace(losses, rss=1600 << 20)
    older.is_added_up = True
    before, after = trace(losses, rss=330 << 20), trace(losses, rss=327 << 20)
    assert compare([older], [after]).memory is None
    assert "not counted alike" in " ".join(compare([older], [after]).lines())
    cost = compare([older, before], [after])
    assert cost.memory is not None and cost.memory.before_bytes == 330 << 20
    also_older = trace(losses, rss=900 << 20)
    also_older.is_added_up = True
    cost = compare([older], [also_older])
    assert cost.memory is not None and cost.memory.is_added_up


def test_the_memory_of_a_fix_that_died_of_memory_is_not_praised() -> None:
    before, after = trace([1.0] * 10, rss=900 << 20), trace([1.0] * 10, rss=600 << 20)
    (memory,) = [line for line in compare([before], [after]).lines() if "Memory" in line]
    assert "-33.3 %" in memory
    cost = compare([before], [after], died_of="host-oom")
    (memory,) = [line for line in cost.lines() if "Memory" in line]
    assert "died of host-oom" in memory and "%" not in memory
    assert cost.to_json()["memory"]["died_of"] == "host-oom"


def test_whose_doing_a_different_loss_is() -> None:
    losses = [1.0 / step for step in range(1, 11)]
    other = [loss + (0.25 if step > 5 else 0.0) for step, loss in enumerate(losses, start=1)]
    one_run = compare([trace(losses)], [trace(other)]).lines()[-1]
    assert "from step 6 on" in one_run and "not known" in one_run
    repeats = compare([trace(losses), trace(losses)], [trace(other)]).lines()[-1]
    assert "it is the change that changes results" in repeats
    varies = compare([trace(losses), trace([2.0, *losses[1:]])], [trace(other)]).lines()[-1]
    assert "no more than unchanged runs differ" in varies


def test_nothing_to_compare_is_said() -> None:
    text = " ".join(compare([], []).lines())
    assert "too few steps" in text and "not recorded" in text and "no equal steps" in text


def test_losses_that_are_not_numbers() -> None:
    cost = compare([trace([1.0, math.nan, math.inf])], [trace([1.0, math.nan, 2.0])])
    assert cost.loss is not None and cost.loss.differs_from_step == 3
