"""Who is which rank, of what the launcher told and what the process told of itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rerail.records import BlackBox, ProcessRecord
from rerail.store import with_boxes


def process(pid: int, role: str, parent: int = 1, **told: Any) -> ProcessRecord:
    return ProcessRecord(pid, 7, parent, role, "python", ["python"], 1.0, **told)


def box(pid: int, parent: int = 1, started: float = 1.0, **told: Any) -> BlackBox:
    return BlackBox(pid, 7, parent, "3.11", ["python"], started, False, True, **told)


def test_what_a_process_told_goes_before_the_variables_of_a_batch_script() -> None:
    slurm = {"rank": 0, "world_size": 1, "node": 3}
    seen = [
        process(10, "main", **slurm),
        *(process(p, "multiprocessing", 10, **slurm) for p in (11, 12)),
    ]
    boxes = [box(11, 10, rank=0, world_size=2), box(12, 10, rank=1, world_size=2)]
    _, first, second = with_boxes(seen, boxes)
    assert (second.role, second.rank, second.world_size, second.node) == ("rank", 1, 2, 3)
    assert (first.rank, first.world_size) == (0, 2)


def test_the_first_rank_of_lightning_is_on_the_node_of_the_others() -> None:
    seen = [process(10, "main"), process(11, "rank", 10, rank=1, world_size=2, node=0)]
    main, _ = with_boxes(seen, [box(10, rank=0, world_size=2), box(11, 10, rank=1, world_size=2)])
    assert (main.role, main.rank, main.world_size, main.node) == ("main", 0, 2, 0)


def test_a_worker_has_its_number_and_is_no_rank() -> None:
    seen = [process(10, "rank", rank=1), process(11, "loader-worker", 10, rank=1)]
    _, worker = with_boxes(seen, [box(10, rank=1), box(11, 10, rank=1, loader_worker=3)])
    assert (worker.role, worker.rank, worker.worker) == ("loader-worker", 1, 3)


def test_ranks_that_the_recorder_did_not_see_are_found_by_their_boxes() -> None:
    srun = process(10, "launcher", ended_t_seconds=9.0)
    boxes = [
        box(20, 19, rank=0, world_size=2),
        box(21, 19, rank=1, world_size=2),
        box(22, 10, rank=4),  # a child of somebody listed: nobody heard of its birth
        box(26, 10, rank=5, loader_worker=2),
        box(23, 19, started=5000.0, rank=2),  # by the clock of another machine
        box(24, 19, started=-5000.0, rank=3),
        box(25, 19),  # no rank
    ]
    found = with_boxes([srun], boxes)
    assert [(p.pid, p.role, p.rank) for p in found] == [
        (10, "launcher", None),
        (20, "rank", 0),
        (21, "rank", 1),
        (22, "rank", 4),
        (26, "loader-worker", 5),
    ]


def test_what_a_rank_starts_is_no_rank_where_the_recorder_did_not_see_it() -> None:
    rank = process(10, "main", ended_t_seconds=9.0)
    assert [p.pid for p in with_boxes([rank], [box(10, rank=1), box(11, 10, rank=1)])] == [10]


_NUMBER = st.none() | st.integers(0, 5)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), _NUMBER, _NUMBER), max_size=8),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), _NUMBER, _NUMBER), max_size=8),
)
def test_nobody_is_lost(
    seen: list[tuple[int, int, int | None, int | None]],
    told: list[tuple[int, int, int | None, int | None]],
) -> None:
    processes = [process(p, "multiprocessing", q, rank=r, node=n) for p, q, r, n in seen]
    boxes = [box(p, q, rank=r, loader_worker=n) for p, q, r, n in told]
    found = with_boxes(processes, boxes)
    assert [p.pid for p in found[: len(processes)]] == [p.pid for p in processes]
