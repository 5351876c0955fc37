"""What ranks and parents say after another rank has failed is not taken for the cause."""

from __future__ import annotations

from dataclasses import replace

from run_builders import box, crash, info, process

from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.logs import observe_text
from rerail.platform.deadline import no_deadline
from rerail.records import BlackBox, Outcome, PythonFrame

ENDED = Outcome(kind="exit", summary="it ended with exit code 1", exit_code=1)
CLOSED = "Connection closed by peer [127.0.0.1]:4711"
WAITED = {"exception_type": "RuntimeError", "exception_text": CLOSED, "exception_t_seconds": 60.0}


def crashed(*more: BlackBox) -> RecordedRun:
    """Rank 1 of two crashes, and rank 0 loses it."""
    ranks = [process(101 + r, "rank", rank=r, parent_pid=100) for r in (0, 1)]
    ended = [replace(ranks[0], exit_code=1), replace(ranks[1], signal="SIGSEGV")]
    boxes = [box(101, rank=0, **WAITED), box(102, rank=1)]
    main = process(100, exit_code=1)
    return RecordedRun(
        info(ENDED), processes=[main, *ended], boxes=[*boxes, *more], crashes=[crash(102)]
    )


def test_the_place_of_a_rank_that_crashed_first_is_known() -> None:
    facts = collect_recorded(crashed()).facts
    assert facts["failed_first"] == "rank 1"
    assert facts["where"] == {
        "file": "train.py",
        "line": 12,
        "function": "main",
        "process": "rank 1",
    }


def test_half_a_message_of_a_child_is_no_broken_checkpoint() -> None:
    """torch.multiprocessing.spawn's parent cannot read what a rank that it ended had begun."""
    spawn = PythonFrame("/x/site-packages/torch/multiprocessing/spawn.py", 208, "join")
    parent = box(
        100,
        exception_type="EOFError",
        exception_text="Ran out of input",
        exception_frames=[spawn, PythonFrame("/data/job/train.py", 20, "main")],
    )
    lines = ["Traceback (most recent call last):"]
    lines += ['  File "/x/torch/multiprocessing/spawn.py", line 208, in join']
    lines += ["    original_trace = pickle.load(fh)", "EOFError: Ran out of input"]
    printed = observe_text(list(enumerate(lines, 1)), no_deadline())
    found = collect_recorded(crashed(parent), text=printed)
    assert not [o for o in found.observations if o.data.get("cause") == "checkpoint-corrupt"]


def test_a_signal_that_ended_the_others_is_not_from_outside() -> None:
    """Lightning's ranks say so, when their launcher ends them after the first has failed."""
    printed = observe_text([(1, "[rank: 0] Received SIGTERM: 15")], no_deadline())
    assert [o.data["cause"] for o in printed.observations if o.kind == "line"]
    found = collect_recorded(crashed(), text=printed)
    assert not [o for o in found.observations if o.data.get("cause") == "scheduler-stopped"]
