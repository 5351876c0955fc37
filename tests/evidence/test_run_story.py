"""Stalls, progress, ranks, history: what the run was doing and who was first."""

from __future__ import annotations

import math

import pytest
from run_builders import box, crash, info, process, recorded, steps

from rerail.evidence.first.boxes import read_failed_first
from rerail.evidence.run.exceptions import read_exceptions
from rerail.evidence.run.history import PastEnd, past_end, pattern_of, read_history
from rerail.evidence.run.progress import (
    loss_trend,
    read_loaded_files,
    read_progress,
    read_settings,
)
from rerail.evidence.run.stalls import hang_facts, read_stalls
from rerail.records import (
    LoadedFile,
    LoaderSettings,
    NativeFrame,
    Outcome,
    PythonFrame,
    Stall,
    StepPoint,
    ThreadStack,
)

DIED = Outcome("signal", "Killed.", signal="SIGSEGV", process="main")


def frames(*names: str) -> list[PythonFrame]:
    return [PythonFrame("x.py", 1, name) for name in names]


def test_the_worker_is_stuck_and_the_main_process_only_waits_for_it():
    gomp = [
        NativeFrame(1, "/lib/libc.so.6", 1, "syscall"),
        NativeFrame(2, "/f/libgomp-a.so.1", 2, "gomp_team_barrier_wait_end"),
        NativeFrame(3, "/f/_swigfaiss.so", 3, "faiss::IndexFlat::search"),
    ]
    stall = Stall(
        20.0,
        8.5,
        8.0,
        "kill",
        {
            "100-7": [
                ThreadStack(
                    100, "python", [], frames("poll", "_try_get_data", "_next_data", "main")
                )
            ],
            "101-7": [ThreadStack(101, "python", gomp, frames("search", "__getitem__", "fetch"))],
        },
    )
    run = recorded(
        processes=[process(), process(101, "loader-worker")],
        boxes=[box(), box(101, fork_parent_had_threads=True)],
        stalls=[stall],
    )
    worker, main = read_stalls(run)
    assert worker.data["pid"] == 101 and worker.data["forked_after_threads"]
    assert worker.data["in_openmp"] and "libgomp-a.so.1" in worker.data["libraries"]
    assert worker.source == "stack:101:101"
    for word in ("DataLoader worker", "forked", "search", "OpenMP", "8.5 s"):
        assert word in worker.text
    assert main.data["waits_on_process"] and "DataLoader workers" in main.text


def test_a_stall_without_stacks_is_still_told():
    (seen,) = read_stalls(recorded(stalls=[Stall(20.0, 8.0, 8.0, "report", {})]))
    assert seen.data["functions"] == [] and "no progress" in seen.text.lower()


def test_a_rank_in_a_collective_waits_for_the_others():
    stall = Stall(9.0, 8.0, 8.0, "report", {"100-7": [ThreadStack(100, None, [], frames("f"))]})
    (seen,) = read_stalls(recorded(stalls=[stall], boxes=[box(collective="all_reduce", rank=0)]))
    assert "all_reduce" in seen.text and seen.data["waits_on_process"]


def test_the_rank_that_the_others_wait_for_is_the_one_that_failed_first():
    stacks = {
        "100-7": [ThreadStack(100, None, [], frames("all_reduce", "main"))],
        "101-7": [
            ThreadStack(101, None, [], frames("late", "main"), waits_for="a lock or another thread")
        ],
    }
    stall = Stall(9.0, 8.0, 8.0, "kill", stacks)
    run = recorded(
        processes=[process(100, "rank"), process(101, "rank")],
        boxes=[box(collective="all_reduce", rank=0), box(101, rank=1)],
        stalls=[stall],
    )
    facts = hang_facts(read_stalls(run))
    assert facts["failed_first"] == "rank 1"
    assert facts["where"] == {"file": "x.py", "line": 1, "function": "late", "process": "rank 1"}
    assert facts["hang"]["kind"] == "stuck" and "holder" not in facts["hang"]


def test_progress_is_the_training_box_not_the_busiest_helper():
    run = recorded(
        processes=[process(), process(101, "loader-worker")],
        boxes=[
            box(101, batches=9000),
            box(
                optimizer_steps=40,
                backward_calls=320,
                epoch=2,
                phase="mining",
                loss=0.5,
                backward_per_step=8.0,
            ),
        ],
    )
    (seen,) = read_progress(run)
    assert seen.source == "box:100"
    assert (seen.data["step"], seen.data["epoch"], seen.data["phase"]) == (40, 2, "mining")
    assert "40 optimiser steps" in seen.text and "mining" in seen.text
    (ratio,) = read_settings(run)
    assert ratio.kind == "accumulation" and ratio.data["backward_per_step"] == 8.0


def test_one_loader_rebuilt_every_epoch_is_one_loader():
    loader = LoaderSettings(2, 32, 2, "fork", False, False)
    (seen,) = read_settings(recorded(boxes=[box(loaders=[loader] * 5)]))
    assert seen.data["workers"] == 2 and "2 workers started by fork" in seen.text


def test_the_last_files_that_were_opened_newest_first():
    files = [LoadedFile(f"/d/{i}.pt", "torch.load", 100 + i, False) for i in range(5)]
    seen = read_loaded_files(recorded(boxes=[box(files=files)]))
    assert [o.data["path"] for o in seen] == ["/d/4.pt", "/d/3.pt", "/d/2.pt"]
    assert "4.pt (104 bytes) was opened by torch.load" in seen[0].text
    assert read_loaded_files(recorded()) == []


def test_the_first_step_without_a_finite_loss():
    history = [StepPoint(i, float(i), 1.0) for i in range(118)] + [StepPoint(119, 119.0, math.inf)]
    run = recorded(boxes=[box(optimizer_steps=119, history=history, first_nonfinite_step=119)])
    seen = next(o for o in read_progress(run) if o.kind == "nonfinite-loss")
    assert seen.data == {"step": 119, "value": "inf", "rank": None}


@pytest.mark.parametrize(
    ("losses", "trend"),
    [
        ([2.0 - i * 0.1 for i in range(12)], "falling"),
        ([1.0] * 12, "level"),
        ([1.0 + i for i in range(12)], "rising"),
        ([1.0] * 6 + [50.0, 900.0, 1e4, 1e5], "diverging"),
        ([1.0] * 10 + [math.nan], "diverging"),
        ([1.0], None),
    ],
)
def test_loss_trends(losses, trend):
    history = [StepPoint(i, float(i), loss) for i, loss in enumerate(losses)]
    assert loss_trend(box(history=history)) == trend


def test_uncaught_exceptions_but_not_a_plain_exit():
    run = recorded(boxes=[box(exception_type="SystemExit", exception_text="1")])
    assert read_exceptions(run) == []
    run = recorded(
        processes=[process(rank=3)],
        boxes=[box(exception_type="ValueError", exception_text="ValueError: bad\nvalue", rank=3)],
    )
    (seen,) = read_exceptions(run)
    assert seen.data["type"] == "ValueError" and "rank 3" in seen.text


def ranks(*parts):
    processes = [process(), *(process(200 + r, "rank", rank=r, **fields) for r, fields, _ in parts)]
    boxes = [box(200 + r, rank=r, optimizer_steps=36, **said) for r, _, said in parts]
    return recorded(processes=processes, boxes=boxes)


def test_a_rank_whose_words_are_an_echo_is_not_first_even_if_it_ended_first():
    run = ranks(
        (
            0,
            {"exit_code": 1, "ended_t_seconds": 9.0},
            {
                "exception_type": "RuntimeError",
                "exception_text": "[gloo] Connection closed by peer [127.0.0.1]:1",
            },
        ),
        (
            1,
            {"exit_code": 1, "ended_t_seconds": 9.4},
            {"exception_type": "IndexError", "exception_text": "index out of range in self"},
        ),
        (2, {"signal": "SIGTERM", "ended_t_seconds": 8.0}, {}),
    )
    (seen,) = read_failed_first(run)
    assert seen.data["who"] == "rank 1" and seen.data["others"] == ["rank 0", "rank 2"]
    assert "IndexError" in seen.text and "echo" in seen.text


def test_among_equals_time_decides_and_a_crash_has_its_own_time():
    run = ranks(
        (0, {"exit_code": 1, "ended_t_seconds": 9.0}, {}),
        (1, {"signal": "SIGSEGV", "ended_t_seconds": 9.5}, {}),
    )
    assert read_failed_first(run)[0].data["who"] == "rank 0"
    crashed = recorded(
        processes=run.processes, boxes=run.boxes, crashes=[crash(201, t_seconds=8.5)]
    )
    assert read_failed_first(crashed)[0].data["who"] == "rank 1"


def test_nobody_failed_first_when_all_were_terminated_or_there_is_one_rank():
    ended = {"signal": "SIGTERM", "ended_t_seconds": 9.0}
    assert read_failed_first(ranks((0, ended, {}), (1, ended, {}))) == []
    assert read_failed_first(ranks((0, {"exit_code": 1}, {}))) == []


def end(step, died=True, **fields):
    base = {"phase": "train", "micro_batch": None, "accumulation": None, "memory_fraction": None}
    return PastEnd("r", died, step, **{**base, **fields})


@pytest.mark.parametrize(
    ("ends", "pattern"),
    [
        ([end(62), end(62), end(62)], "fixed-step"),
        ([end(1000), end(1001)], "fixed-step"),
        ([end(31), end(251), end(7)], "random"),
        ([end(117), end(927)], "random"),
        ([end(117)], None),
        ([end(117), end(900, died=False)], None),
        (
            [end(100, phase="mining"), end(400, phase="mining"), end(900, phase="mining")],
            "phase-boundary",
        ),
        ([end(i, micro_batch=7, accumulation=8) for i in (10, 90, 300)], "accumulation-boundary"),
        ([end(i, micro_batch=1, accumulation=2) for i in (10, 90, 300)], "random"),
        ([end(i, memory_fraction=0.99) for i in (100, 180, 350)], "with-memory"),
        ([end(100), end(115)], None),
    ],
)
def test_patterns(ends, pattern):
    assert pattern_of(ends) == pattern


def test_history_counts_this_run_and_says_the_steps():
    run = recorded(DIED, boxes=[box(optimizer_steps=31, history=steps(3))])
    assert past_end(run).step == 31
    (seen,) = read_history(run, [end(117), end(927), end(500, died=False)])
    assert seen.data["runs"] == 4 and seen.data["deaths"] == 3 and seen.data["pattern"] == "random"
    assert "117, 927 and 31" in seen.text and "different step" in seen.text


def test_a_first_run_claims_no_pattern_and_a_healthy_one_has_no_history():
    (seen,) = read_history(recorded(DIED), [])
    assert seen.data["pattern"] is None and "not known yet" in seen.text
    healthy = recorded(info=info(Outcome("ok", "fine", exit_code=0)))
    assert read_history(healthy, [end(3)]) == []
