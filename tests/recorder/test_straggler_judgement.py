"""Who is slow, from what the ranks have counted: pure, on made-up jobs."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.recorder.stragglers.judgement import Caught, Sample, Slow, Stragglers


def job(
    own: list[list[float]],
    data: list[list[float]] | None = None,
    queued: list[list[float]] | None = None,
) -> list[Slow | Caught]:
    """What is said of a job whose ranks need `own[step][rank]` seconds and wait for each other."""
    watch = Stragglers()
    found = []
    ranks = len(own[0])
    now, waited, loaded, stood = 0.0, [0.0] * ranks, [0.0] * ranks, [0.0] * ranks
    for step, needs in enumerate(own, 1):
        delays = queued[step - 1] if queued else [0.0] * ranks
        lasted = max(a + b for a, b in zip(needs, delays, strict=True))
        now += lasted
        for rank in range(ranks):
            waited[rank] += lasted - needs[rank] - delays[rank]
            stood[rank] += delays[rank]
            loaded[rank] += data[step - 1][rank] if data else 0.0
        samples = [
            Sample(r, 100 + r, step, *(int(1e9 * x) for x in (now, waited[r], loaded[r], stood[r])))
            for r in range(ranks)
        ]
        said = watch.look(samples)
        if said is not None:
            found.append(said)
    return found


def noisy(steps: int, ranks: int, seed: int, noise: float = 0.05) -> list[list[float]]:
    chance = random.Random(seed)

    def needs() -> float:
        return 0.05 * chance.uniform(1 - noise, 1 + noise)

    return [[needs() for _ in range(ranks)] for _ in range(steps)]


@settings(max_examples=20)
@given(st.integers(2, 16), st.integers(0, 10**6))
def test_none_is_named_in_a_healthy_job(ranks: int, seed: int) -> None:
    assert job(noisy(300, ranks, seed)) == []


@settings(max_examples=20)
@given(st.integers(2, 16), st.integers(0, 10**6), st.sampled_from([0.2, 0.5, 3.0]), st.data())
def test_a_rank_a_fifth_slower_is_named_within_fifty_steps(
    ranks: int, seed: int, excess: float, data: st.DataObject
) -> None:
    victim = data.draw(st.integers(0, ranks - 1))
    own = noisy(200, ranks, seed)
    for needs in own[60:]:
        needs[victim] *= 1 + excess
    said = job(own)
    assert [type(each) for each in said] == [Slow]  # once, and nobody else
    assert isinstance(said[0], Slow)
    assert said[0].rank == victim and said[0].part == "compute"
    assert 60 < said[0].at_step <= 110
    assert said[0].since_step >= 10


def test_a_rank_that_waits_for_its_data_is_named_for_that() -> None:
    own = noisy(150, 3, 1)
    data = [[0.01, 0.01, 0.03] for _ in own]
    own = [[a, b, c + 0.02] for a, b, c in own]
    [slow] = job(own, data)
    assert isinstance(slow, Slow) and (slow.rank, slow.part) == (2, "data")
    assert "waiting for data; they wait for it" in slow.text


def test_a_rank_that_catches_up_is_said_to_and_can_be_named_again() -> None:
    own = noisy(400, 4, 2)
    for needs in (*own[50:150], *own[250:350]):
        needs[3] *= 1.4
    said = job(own)
    assert [(type(each), each.rank) for each in said] == [(Slow, 3), (Caught, 3)] * 2


def test_who_comes_and_goes_is_not_slow() -> None:
    own = noisy(400, 3, 3)
    for first in range(20, 400, 40):
        for needs in own[first : first + 10]:
            needs[1] *= 1.4
    assert job(own) == []


def test_standing_in_line_for_a_processor_is_nobodys_fault() -> None:
    own = noisy(200, 3, 4)
    assert job(own, queued=[[0.0, 0.02, 0.0] for _ in own]) == []


@given(st.lists(st.lists(st.integers(-5, 2**63), min_size=6, max_size=6), max_size=60))
def test_any_numbers_can_be_looked_at(rows: list[list[int]]) -> None:
    watch = Stragglers()
    for at, row in enumerate(rows):
        rank, pid, steps, *times = row
        a = Sample(rank % 3, pid, at * 6 + steps % 7, *times)
        b = Sample(rank % 3 + 1, pid, at * 6 + 10, *reversed(times))
        watch.look([a, b])
