"""Which rank is missing in the collective that the others wait in."""

from __future__ import annotations

from dataclasses import replace

from rerail.live.alerts import ranks_of
from rerail.recorder.stragglers.missing import find_missing
from rerail.records import BlackBox, CollectiveCall, Event


def call(sequence: int, entered: float, left: float | None) -> CollectiveCall:
    number, is_waited_for = sequence, left is None
    return CollectiveCall(
        *(number, "all_reduce", "default", sequence, entered, left, False, is_waited_for, 4),
        *([1], None),
    )


def box(rank: int, *calls: CollectiveCall, said_goodbye: bool = False) -> BlackBox:
    return BlackBox(
        *(100 + rank, 1, 1, "3.11", [], 0.0, said_goodbye, True),
        rank=rank,
        world_size=3,
        collectives=list(calls),
    )


DONE = call(1203, 80.0, 80.1)
WAITS = call(1204, 81.0, None)


def test_the_one_that_has_not_entered_is_named_with_those_who_wait() -> None:
    boxes = [box(0, DONE, WAITS), box(1, DONE), box(2, DONE, WAITS)]
    missing = find_missing(boxes, 93.0, 0.05)
    assert missing is not None
    assert missing.text("data.py:88 load_shard()") == (
        "rank 1 (pid 101) has not entered all_reduce #1,204 in which ranks 0 and 2 have waited"
        " for 12 s; it stands in data.py:88 load_shard()"
    )


def test_a_slow_step_is_no_reason() -> None:
    boxes = [box(0, DONE, WAITS), box(1, DONE), box(2, DONE, WAITS)]
    assert find_missing(boxes, 90.0, 0.05) is None
    assert find_missing(boxes, 93.0, 1.0) is None


def test_nobody_is_missing_where_all_wait_or_two_are_away() -> None:
    assert find_missing([box(0, WAITS), box(1, WAITS)], 200.0, 0.1) is None
    assert find_missing([box(0, WAITS), box(1, DONE), box(2, DONE)], 200.0, 0.1) is None
    assert find_missing([box(0, WAITS), box(1, DONE, said_goodbye=True)], 200.0, 0.1) is None


def test_one_that_has_been_there_is_not_missing() -> None:
    been = call(1204, 81.0, 81.1)
    assert find_missing([box(0, DONE, WAITS), box(1, DONE, been)], 200.0, 0.1) is None


def test_an_alert_stands_until_it_is_over() -> None:
    slow = Event(1.0, "straggler", {"text": "rank 1 is slow"})
    away = Event(2.0, "rank-missing", {"text": "rank 2 is away"})
    assert ranks_of([slow, away]) == ["rank 2 is away", "rank 1 is slow"]
    over = Event(3.0, "rank-missing-over", {"text": "it has come"})
    assert ranks_of([slow, away, over]) == ["rank 1 is slow"]


def worker(rank: int) -> BlackBox:
    """Of a loader: it has the environment of its rank, and a box of its own."""
    return replace(box(rank), pid=500 + rank, started_t_seconds=2.0)


def test_loader_workers_of_a_rank_do_not_hide_it() -> None:
    boxes = [box(0, DONE, WAITS), worker(0), box(1, DONE), worker(1), box(2, DONE, WAITS)]
    missing = find_missing(boxes, 93.0, 0.05)
    assert missing is not None and (missing.rank, missing.pid) == (1, 101)
    assert missing.waiting == (0, 2)


def test_those_of_before_a_restart_wait_for_nobody() -> None:
    """Of the killed ones one had waited; the new ones are in a long evaluation."""
    before = [box(0, DONE, WAITS), box(1, DONE)]
    after = [replace(box(rank, call(2, 300.0, 300.1)), pid=200 + rank) for rank in (0, 1)]
    assert find_missing([*before, *after], 400.0, 0.1, living={200, 201}) is None
    assert find_missing(before, 400.0, 0.1, living=set()) is None
    assert find_missing(before, 400.0, 0.1, living={100}) is not None  # it was killed alone
