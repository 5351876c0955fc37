"""Who failed first, from records put together by hand: what each rank did, on one clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_builders import box, info, process

from rerail.evidence.first.boxes import read_failed_first
from rerail.evidence.run.material import RecordedRun
from rerail.records import (
    BlackBox,
    CollectiveCall,
    Outcome,
    ProcessRecord,
    PythonFrame,
    Stall,
    ThreadStack,
)

TIMED_OUT = "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation"
CLOSED = "[gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4711"
PLACE = PythonFrame("/data/job/train.py", 20, "reduce")


def call(
    sequence: int,
    left: float | None = -1.0,
    *,
    op: str = "all_reduce",
    shape: tuple[int, ...] = (4,),
    entered: float | None = None,
    raised: bool = False,
    place: PythonFrame = PLACE,
) -> CollectiveCall:
    """Number n of the sequence, entered in second n."""
    entered = float(sequence) if entered is None else entered
    return CollectiveCall(
        number=sequence,
        op=op,
        group="",
        sequence=sequence,
        entered_t_seconds=entered,
        left_t_seconds=entered + 0.5 if left == -1.0 else left,
        has_raised=raised,
        is_waited_for=left is None,
        size_bytes=16,
        shape=list(shape),
        place=place,
    )


def job(*ranks: tuple[dict[str, Any], dict[str, Any]], **changes: Any) -> RecordedRun:
    """Each rank: what is known of its process, what its box holds."""
    processes: list[ProcessRecord] = [process(99, "launcher", exit_code=1)]
    boxes: list[BlackBox] = []
    for rank, (of_process, of_box) in enumerate(ranks):
        of_process = {"parent_pid": 99, "rank": rank, "ended_t_seconds": 60.0, **of_process}
        processes.append(process(100 + rank, "rank", **of_process))
        boxes.append(box(100 + rank, rank=rank, world_size=len(ranks), **of_box))
    outcome = Outcome(kind="exit", summary="it ended with exit code 1", exit_code=1)
    base = {"info": info(outcome, root_pid=99), "processes": processes, "boxes": boxes}
    return RecordedRun(**{**base, **changes})


def waited(text: str = TIMED_OUT, at: float = 40.0, entered: int = 10) -> tuple[Any, Any]:
    calls = [call(n) for n in range(1, entered)] + [call(entered, at, raised=True)]
    raised = {"exception_type": "RuntimeError", "exception_text": text}
    return {"exit_code": 1}, {**raised, "exception_t_seconds": at, "collectives": calls}


def upto(last: int, **of_box: Any) -> dict[str, Any]:
    return {"collectives": [call(n) for n in range(1, last + 1)], "optimizer_steps": last, **of_box}


def test_a_rank_that_hangs_says_nothing_and_was_first() -> None:
    stack = ThreadStack(
        101,
        "python",
        python=[PythonFrame("/data/job/data.py", 88, "load_shard")],
        waits_for="a sleep to end",
    )
    stall = Stall(25.0, 15.0, 10.0, "report", {"101-7": [stack]}, is_early=True)
    run = job(waited(), ({"signal": "SIGTERM"}, upto(9)), waited(), stalls=[stall])
    (seen,) = read_failed_first(run)

    assert seen.data["who"] == "rank 1" and seen.data["how"] == "stuck"
    assert seen.data["others"] == [] and seen.data["waiting"] == ["rank 0", "rank 2"]
    assert seen.text == (
        "Rank 1 (pid 101) slept in data.py:88 load_shard while ranks 0 and 2 waited in"
        " all_reduce #10 and gave up after 30 s."
    )
    assert seen.data["where"]["line"] == 88


def test_a_rank_that_came_after_the_others_gave_up() -> None:
    late = [call(n) for n in range(1, 10)] + [call(10, 52.5, entered=52.0, raised=True)]
    raised = {"exception_type": "RuntimeError", "exception_text": CLOSED}
    of_box = {**raised, "exception_t_seconds": 52.5, "collectives": late}
    (seen,) = read_failed_first(job(waited(), ({"exit_code": 1}, of_box)))

    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "late")
    assert "came 42 s late" in seen.text


def test_a_rank_that_left_with_exit_code_0() -> None:
    left = {"exit_code": 0, "ended_t_seconds": 11.0}
    (seen,) = read_failed_first(job(waited(CLOSED, 11.2), (left, upto(9, said_goodbye=True))))

    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "left")
    assert "left with exit code 0 after step 9" in seen.text


def test_of_two_ranks_the_one_that_left_the_pattern_is_elsewhere() -> None:
    """Each step reduces a weight and a bias; one rank is a call ahead."""
    usual = [call(n, shape=(1, 4) if n % 2 else (1,)) for n in range(1, 10)]
    other = PythonFrame("/data/job/train.py", 50, "evaluate")
    right = [*usual, call(10, None, shape=(1,))]
    wrong = [*usual, call(10, None, shape=(1, 4), place=other)]
    for ranks in ([right, wrong], [wrong, right]):
        run = job(*(({"signal": "SIGTERM"}, {"collectives": calls}) for calls in ranks))
        (seen,) = read_failed_first(run)
        assert seen.data["rank"] == ranks.index(wrong)
        assert seen.data["how"] == "mismatch"
        assert "of 1x4 instead of 1 in train.py:50 evaluate" in seen.text


@pytest.mark.parametrize("said", ["op.preamble.length <= op.nbytes. 16 vs 4", "words of tomorrow"])
def test_an_end_inside_a_collective_after_a_disagreement_is_an_echo(said: str) -> None:
    """Which rank gloo tells of the disagreement depends on whose message arrives first."""
    barrier = call(10, 10.4, op="barrier", shape=(), raised=True)
    raised = {"exception_type": "RuntimeError", "exception_text": CLOSED}
    of_box = {"collectives": [*(call(n) for n in range(1, 10)), barrier], **raised}
    odd = ({"exit_code": 1}, {**of_box, "exception_t_seconds": 10.4})
    (seen,) = read_failed_first(job(waited(said, at=10.2), odd, waited(CLOSED, at=10.3)))
    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "mismatch")


def test_an_end_without_words_inside_a_collective_after_a_disagreement_is_an_echo() -> None:
    """`torch.multiprocessing.spawn` catches what a rank raises: only the exit code is left."""
    inside = {"collectives": [*(call(n) for n in range(1, 10)), call(10, None)]}
    other = {"collectives": [*(call(n) for n in range(1, 10)), call(10, None, op="barrier")]}
    ended = {"exit_code": 1, "ended_t_seconds": 10.2}
    run = job((ended, inside), ({"signal": "SIGTERM"}, other), ({"signal": "SIGTERM"}, inside))
    (seen,) = read_failed_first(run)
    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "mismatch")


def test_a_rank_that_failed_by_itself_and_is_held_by_its_threads() -> None:
    raised = {"exception_type": "ValueError", "exception_text": "no labels"}
    of_box = upto(9, **raised, exception_t_seconds=9.7)
    (seen,) = read_failed_first(job(waited(), ({"signal": "SIGTERM"}, of_box)))

    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "raised")
    assert seen.data["others"] == ["rank 0"]


def test_who_is_killed_after_the_others_gave_up_was_not_first() -> None:
    """A launcher ends who does not listen to SIGTERM with SIGKILL."""
    killed = {"signal": "SIGKILL", "ended_t_seconds": 70.0}
    ranks = [waited(), (killed, upto(9)), ({"signal": "SIGKILL", "ended_t_seconds": 71.0}, {})]
    (seen,) = read_failed_first(job(*ranks))
    assert seen.data["how"] == "stuck"


def test_a_rank_that_was_told_of_another_number_of_ranks() -> None:
    gave_up = {"exception_type": "DistStoreError", "exception_text": "wait timeout after 30000ms"}
    run = job(waited(), ({"exit_code": 1}, {**gave_up, "exception_t_seconds": 39.0}))
    boxes = [run.boxes[0], box(101, rank=1, world_size=3, **gave_up)]
    (seen,) = read_failed_first(
        job(waited(), ({"exit_code": 1}, {}), boxes=boxes, processes=run.processes)
    )
    assert (seen.data["who"], seen.data["how"]) == ("rank 1", "mismatch")
    assert "was told that there are 3 ranks" in seen.text


def test_what_a_rank_starts_is_no_rank() -> None:
    """It has the rank's variables; here through a shell, and it ends later than its rank."""
    run = job(waited(CLOSED, 11.2), ({"exit_code": 0, "ended_t_seconds": 11.0}, upto(9)))
    shell = process(200, "shell", parent_pid=101, rank=1, exit_code=0)
    tool = process(201, "main", parent_pid=200, rank=1, exit_code=3, started_t_seconds=5.0)
    processes = [*run.processes, shell, tool]
    (seen,) = read_failed_first(RecordedRun(run.info, processes=processes, boxes=run.boxes))
    assert (seen.data["pid"], seen.data["how"]) == (101, "left")


def test_a_launcher_that_was_killed() -> None:
    run = job(waited(CLOSED, 31.0), ({"exit_code": 1}, upto(9)))
    killed = process(99, "launcher", signal="SIGKILL", ended_t_seconds=30.0)
    (seen,) = read_failed_first(
        RecordedRun(info=run.info, processes=[killed, *run.processes[1:]], boxes=run.boxes)
    )
    assert seen.data["who"] == "launcher"


def test_ranks_in_step_that_somebody_interrupted() -> None:
    """Each waits a little for the others, which is no failure."""
    ended = {"signal": "SIGINT", "ended_t_seconds": 10.1}
    waits = {"collectives": [*(call(n) for n in range(1, 10)), call(10, None)]}
    assert read_failed_first(job((ended, waits), (ended, upto(9)))) == []


def test_a_run_that_ended_well_has_no_first() -> None:
    run = job(({"exit_code": 0}, upto(9)), ({"exit_code": 0}, upto(9)))
    fine = info(Outcome(kind="ok", summary="fine", exit_code=0), root_pid=99)
    assert read_failed_first(RecordedRun(fine, processes=run.processes, boxes=run.boxes)) == []


def test_a_script_that_only_waits_hides_no_failure() -> None:
    raised = {"exception_type": "ValueError", "exception_text": "no labels"}
    of_box = upto(9, **raised, exception_t_seconds=9.7)
    run = job(waited(CLOSED, 10.0), ({"exit_code": 1}, of_box))
    fine = info(Outcome(kind="ok", summary="fine", exit_code=0), root_pid=99)
    (seen,) = read_failed_first(RecordedRun(fine, processes=run.processes, boxes=run.boxes))
    assert (seen.data["who"], seen.data["others"]) == ("rank 1", ["rank 0"])


@given(
    st.integers(2, 9),
    st.integers(1, 30),
    st.data(),
)
def test_whoever_is_missing_is_named_however_many_wait(
    world: int, sequence: int, data: st.DataObject
) -> None:
    missing = data.draw(st.integers(0, world - 1))
    ranks = [
        ({"signal": "SIGTERM"}, upto(sequence - 1))
        if rank == missing
        else waited(at=sequence + 30.0, entered=sequence)
        for rank in range(world)
    ]
    (seen,) = read_failed_first(job(*ranks))
    assert seen.data["rank"] == missing
    assert len(seen.text) < 240
