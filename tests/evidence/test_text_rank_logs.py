"""Who failed first, from the logs of many ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.rank_logs import KINDS, verdict, write_job
from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail.evidence.text.rank_names import named_for
from rerail.evidence.text.rank_streams import split_streams
from rerail.evidence.text.rank_survey import TextLog, survey
from rerail.evidence.text.rank_words import Shapes, statements_of, text_of
from rerail.platform.deadline import no_deadline

CAUGHT = (
    "[rank{r}]:[E1117 10:10:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught"
    " collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={e},"
    " NumelOut={e}, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)
OBSERVED = (
    "[rank{r}]:[E1117 10:10:00.123456789 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg)"
    " Rank {r}] Received a dump signal due to a collective timeout from  rank 0 and we will try our"
    " best to dump the debug info. Last enqueued NCCL work: {n}, last completed NCCL work: {n}."
)


def explained(path: Path) -> dict[str, Any]:
    return rerail.explain(path).to_json()


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_the_first_rank_and_its_cause_are_found_in_a_job(tmp_path: Path, seed: int) -> None:
    truth = write_job(tmp_path, seed, 48, 0, 600)
    assert verdict(truth, explained(tmp_path)) == (True, True), truth


def test_a_rank_that_never_entered_is_named_in_one_sentence(tmp_path: Path) -> None:
    for rank in range(4):
        line = OBSERVED if rank == 2 else CAUGHT
        text = f"step 11 loss 0.5\n{line.format(r=rank, n=77 if rank == 2 else 78, e=4096)}\n"
        (tmp_path / f"rank_{rank}.log").write_text(text)
    answer = explained(tmp_path)
    assert answer["facts"]["failed_first"] == "rank 2"
    assert answer["headline"] == (
        "Rank 2 never entered allreduce #78, in which 3 ranks waited and gave up after 10 min."
    )
    assert answer["causes"][0]["id"] == "collective-timeout"


def test_the_same_in_one_merged_log(tmp_path: Path) -> None:
    lines = []
    for rank in range(4):
        lines += [f"[rank{rank}]: step 11 loss 0.5"]
    for rank in range(4):
        line = OBSERVED if rank == 2 else CAUGHT
        lines += [line.format(r=rank, n=77 if rank == 2 else 78, e=4096)]
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    answer = explained(log)
    assert answer["facts"]["failed_first"] == "rank 2"
    assert "never entered allreduce #78" in answer["headline"]


def test_a_rank_with_another_shape_is_named(tmp_path: Path) -> None:
    for rank in range(5):
        text = CAUGHT.format(r=rank, n=78, e=8200 if rank == 3 else 4096)
        (tmp_path / f"rank_{rank}.log").write_text(f"step 11 loss 0.5\n{text}\n")
    answer = explained(tmp_path)
    assert answer["facts"]["failed_first"] == "rank 3"
    assert answer["causes"][0]["id"] == "collective-mismatch"
    assert "8,200 elements" in answer["headline"]


def test_a_missing_log_is_named_when_all_others_point_to_it(tmp_path: Path) -> None:
    down = (
        "F1117 10:10:00.1  77 client.h:77] Terminating process because the JAX distributed service"
        " detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy"
        " (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:7\n"
    )
    for rank in range(24):
        if rank != 7:
            (tmp_path / f"worker-{rank}.txt").write_text(f"step 40 loss 0.3\n{down}")
    answer = explained(tmp_path)
    assert answer["facts"]["failed_first"] == "rank 7"
    assert "its log is missing" in answer["headline"]


def test_a_clock_that_is_wrong_does_not_change_who_was_first(tmp_path: Path) -> None:
    """The rank that raised has the latest stamps; its echo on the others has earlier ones."""
    raised = (
        "2026-11-17 11:59:00 Traceback (most recent call last):\n"
        '  File "/w/train.py", line 9, in load\n    raise ValueError(shard)\n'
        "ValueError: shard 12 has no rows\n"
    )
    lost = (
        "2026-11-17 10:00:00 RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534]"
        " Connection closed by peer [10.0.0.3]:43211\n"
    )
    for rank in range(20):
        own = raised if rank == 13 else lost
        (tmp_path / f"rank_{rank}.log").write_text(f"step 40 loss 0.3\n{own}")
    answer = explained(tmp_path)
    assert answer["facts"]["failed_first"] == "rank 13"
    assert answer["facts"]["where"]["process"] == "rank 13"
    assert answer["facts"]["where"]["line"] == 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank_3.log", (3, "", None)),
        ("log_12.txt", (12, "", None)),
        ("slurm-48113_7.out", (7, "", None)),
        ("worker-7.txt", (7, "", None)),
        ("node-2/attempt_0/3/stderr.log", (None, "node-2", 3)),
        ("gpu012_local3.log", (None, "gpu012", 3)),
        ("node-2.log", (None, "node-2", None)),
        ("dmesg-gpu015.txt", (None, "gpu015", None)),
        ("mpirun.log", (None, "", None)),
    ],
)
def test_a_file_is_somebodys_by_its_name(
    name: str, expected: tuple[int | None, str, int | None]
) -> None:
    found = named_for(name)
    assert (found.rank, found.host, found.local) == expected


@pytest.mark.parametrize(
    "label",
    ["[rank{}]: ", "[1,{}]<stderr>:", "{}: ", "[default{}]:", "train-worker-{} | "],
)
def test_a_merged_log_is_split_by_its_label(label: str) -> None:
    lines = [(at, label.format(at % 4) + f"step {at} loss 0.1") for at in range(1, 40)]
    streams = split_streams([*lines, (40, "srun: error: node-1: task 3: Killed")])
    assert streams is not None
    assert sorted(streams.of_ranks) == [0, 1, 2, 3]
    assert streams.of_ranks[1][0] == (1, "step 1 loss 0.1")
    assert [number for number, _ in streams.launcher] == [40]


def test_ordinary_lines_are_not_taken_for_streams() -> None:
    assert split_streams([(at, f"step {at}: loss 0.1") for at in range(1, 40)]) is None


def test_statements_give_their_numbers() -> None:
    line = (
        b"mpirun noticed that process rank 9 with PID 0 on node gpu3 exited on signal 9 (Killed)."
    )
    shape = Shapes().of(line)
    assert statements_of(shape, text_of(line)) == [
        ("ended-mpirun", {"rank": "9", "node": "gpu3", "signal": "9"})
    ]


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_any_bytes_can_be_looked_at(parts: list[bytes]) -> None:
    text = b"\n".join(parts).decode("utf-8", "replace")
    lines = list(enumerate(text.split("\n"), 1))
    (record,) = survey([TextLog("rank_1.log", lines)], no_deadline())
    assert record.rank == 1
    split_streams(lines)
