"""Clocks of many machines as one: what is claimed about a clock is true, whatever was exchanged."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from rerail.jobs.clocks import DRIFT, Shift, align, by_walls
from rerail.jobs.records import Heard, Member


def member(node: str, heard: list[Heard] | None = None, **fields: object) -> Member:
    return Member(node, "run", node, heard=tuple(heard or ()), **fields)  # type: ignore[arg-type]


def exchange(starts: dict[str, float], rates: dict[str, float], seed: int) -> list[Member]:
    """Nodes that began at these times, with clocks of these rates, read each other's stamps."""
    chance = random.Random(seed)
    heard: dict[str, list[Heard]] = {node: [] for node in starts}

    def clock(node: str, true: float) -> float:
        return round((true - starts[node]) * rates[node], 3)

    last = dict.fromkeys(starts, 0.0)
    for _ in range(30):
        speaker, listener = chance.sample(sorted(starts), 2)
        written = max(starts[speaker], starts[listener]) + chance.uniform(0.0, 60.0)
        read = written + chance.uniform(0.001, 3.0)
        stamp = clock(speaker, written)
        heard[listener].append(Heard(listener, speaker, clock(listener, read), stamp))
        last[listener] = max(last[listener], clock(listener, read))
    return [member(node, heard[node], last_t=max(last[node], 1.0)) for node in sorted(starts)]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 20), min_size=2, max_size=6),
    st.integers(0, 10_000),
)
def test_the_true_shift_lies_within_what_is_claimed(starts: dict[str, float], seed: int) -> None:
    chance = random.Random(seed + 1)
    rates = {node: 1.0 + chance.uniform(-5e-5, 5e-5) for node in starts}
    clock = align(exchange(starts, rates, seed))
    for node, shift in clock.shifts.items():
        truth = starts[node] - starts[clock.reference]
        slack = 90 * DRIFT  # the clocks drift while they are compared
        assert shift.lowest - slack <= truth <= shift.highest + slack


def test_a_chain_reaches_a_node_that_nobody_read_directly() -> None:
    members = [
        member("a", [Heard("a", "b", 12.0, 1.0)], last_t=12.0),
        member("b", [Heard("b", "a", 2.0, 11.9), Heard("b", "c", 3.0, 8.0)], last_t=3.0),
        member("c", [Heard("c", "b", 9.0, 3.5)], last_t=9.0),
    ]
    clock = align(members)
    assert clock.reference == "a" and set(clock.shifts) == {"a", "b", "c"}
    assert clock.shifts["c"].lowest <= clock.shifts["c"].highest
    assert math.isclose(clock.shifts["b"].seconds, 10.45, abs_tol=0.6)


def test_steps_that_ranks_do_together_are_stamps_too() -> None:
    ours = tuple((step, 10.0 + step * 0.2) for step in range(20))
    theirs = tuple((step, 3.0 + step * 0.2 + 0.01) for step in range(20))
    clock = align([member("a", steps={0: ours}), member("b", steps={1: theirs})])
    shift = clock.shifts["b"]
    assert clock.uses_steps
    assert shift.lowest <= 7.0 <= shift.highest
    assert shift.uncertainty < 0.21, "no worse than the length of a step"


def test_ranks_that_do_not_wait_for_each_other_are_no_clock() -> None:
    """Each trains a model of its own: their steps contradict each other, and only stamps count."""
    ours = tuple((step, step * 0.2) for step in range(40))
    theirs = tuple((step, 5.0 + step * 0.9) for step in range(40))
    stamps = [Heard("a", "b", 30.0, 29.0)], [Heard("b", "a", 31.0, 30.0)]
    clock = align(
        [
            member("a", stamps[0], steps={0: ours}, last_t=30.0),
            member("b", stamps[1], steps={1: theirs}, last_t=31.0),
        ]
    )
    assert not clock.uses_steps
    assert clock.shifts["b"].lowest <= 0.0 <= clock.shifts["b"].highest


def test_stamps_that_contradict_each_other_claim_nothing() -> None:
    members = [
        member("a", [Heard("a", "b", 1.0, 50.0)], last_t=1.0),
        member("b", [Heard("b", "a", 1.0, 50.0)], last_t=1.0),
    ]
    assert set(align(members).shifts) == {"a"}


def test_a_large_job_whose_stamps_contradict_each_other_is_answered() -> None:
    """Each hears its parent in a tree; the time grew with the square: 1.5 s for 1,000 nodes."""
    names = [f"n{number:05}" for number in range(8000)]
    members = [member(names[0], last_t=9.0)]
    for number, name in enumerate(names[1:]):
        parent = names[number // 8]
        stamps = [Heard(name, parent, 1.0, 2.0), Heard(parent, name, 1.0, 5.0)]
        members.append(member(name, stamps, last_t=9.0))
    assert set(align(members).shifts) == {names[0]}


def test_without_stamps_the_time_of_day_counts_to_a_minute() -> None:
    members = [member("a", began_unix=1000.0), member("b", began_unix=1010.0)]
    assert by_walls(members).shifts["b"] == Shift(-50.0, 70.0)
