"""Pools, launchers and notebooks: who failed, as told from who was ended or only passed it on."""

from __future__ import annotations

import pytest
from run_builders import box, info, process, recorded, steps

from rerail.diagnosis import Diagnosis, diagnose
from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.exits import read_deaths
from rerail.evidence.run.oom import read_oom_kills
from rerail.evidence.run.stalls import telling_stall
from rerail.evidence.text.logs import observe_text
from rerail.evidence.text.observing import TextEvidence
from rerail.records import AfterDeath, Evidence, Observation, Outcome, PythonFrame, Stall
from rerail.wording import place_in_words

FAILED = Outcome("exit", "ended with exit code 1", exit_code=1, process="main")
QUIET = AfterDeath(machine_oom_kills=0)


def failed_with(type_: str, text: str, **parts):
    """A main process that raised this, and a child that was killed two seconds before its end."""
    child = process(101, "child", signal="SIGKILL", ended_t_seconds=58.0)
    raised = box(exception_type=type_, exception_text=text)
    return recorded(FAILED, processes=[process(exit_code=1), child], boxes=[raised], **parts)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("ValueError", "Input X contains NaN.\nThe worker's estimator takes no NaN"),
        ("KeyError", "'label'"),
        (
            "ray.train.WorkerGroupError",
            "Training failed due to worker errors:\nTraceback (most recent call last):\n"
            '  File "train.py", line 3, in loop\nValueError: no rows left',
        ),
    ],
)
def test_workers_that_their_pool_ended_were_not_killed_by_somebody(type_: str, text: str) -> None:
    run = failed_with(type_, text, after=QUIET)
    (killed,) = [o for o in read_deaths(run) if o.data["pid"] == 101]
    assert killed.data["is_tidying"]
    (seen,) = read_oom_kills(run)
    assert seen.data["is_tidying"]
    causes = [c.cause.id for c in diagnose(collect_recorded(run)).candidates]
    assert "killed-from-outside" not in causes and "host-oom" not in causes


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("joblib.externals.loky.process_executor.TerminatedWorkerError", "A worker process …"),
        ("concurrent.futures.process.BrokenProcessPool", "A process was terminated abruptly"),
        ("RuntimeError", "DataLoader worker (pid(s) 101) exited unexpectedly"),
        ("EOFError", ""),
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        ("nbclient.exceptions.DeadKernelError", "Kernel died"),
    ],
)
def test_a_child_whose_loss_is_what_was_raised_was_killed(type_: str, text: str) -> None:
    run = failed_with(type_, text, after=QUIET)
    (killed,) = [o for o in read_deaths(run) if o.data["pid"] == 101]
    assert not killed.data["is_tidying"]
    (seen,) = read_oom_kills(run)
    assert not seen.data["is_tidying"]
    assert diagnose(collect_recorded(run)).candidates[0].cause.id == "killed-from-outside"


def test_what_is_killed_after_a_crash_went_with_its_pool_whatever_the_kernel_did_elsewhere() -> (
    None
):
    crashed = process(101, "child", signal="SIGSEGV", ended_t_seconds=50.0)
    ended = process(102, "child", signal="SIGKILL", ended_t_seconds=52.0)
    raised = box(exception_type="ActorDiedError", exception_text="The actor died")
    run = recorded(
        FAILED,
        processes=[process(exit_code=1), crashed, ended],
        boxes=[raised],
        after=AfterDeath(machine_oom_kills=10),
    )
    (seen,) = read_oom_kills(run)
    assert (seen.kind, seen.data["is_tidying"]) == ("no-oom-kill", True)
    assert "crashed by itself" in seen.text


WORKER = '''concurrent.futures.process._RemoteTraceback:
"""
Traceback (most recent call last):
  File "/x/lib/python3.11/concurrent/futures/process.py", line 261, in _process_worker
    r = call_item.fn(*call_item.args, **call_item.kwargs)
  File "/data/job/score.py", line 23, in score
    return 1 / (len(a) - len(b))
ZeroDivisionError: division by zero
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/data/job/score.py", line 43, in <module>
    search.fit(inputs, targets)
ZeroDivisionError: division by zero
'''


def test_the_place_is_the_worker_s_and_not_where_the_pool_raised_again() -> None:
    raised = box(
        exception_type="ZeroDivisionError",
        exception_text="division by zero",
        exception_frames=[PythonFrame("/data/job/score.py", 43, "<module>")],
    )
    text = observe_text(enumerate(WORKER.split("\n"), 1))
    facts = collect_recorded(recorded(FAILED, boxes=[raised]), (), text).facts
    assert (facts["where"]["line"], facts["where"]["function"]) == (23, "score")
    assert facts["where"]["process"] == "a worker process"


def test_a_launcher_s_exception_gives_way_to_that_of_its_child() -> None:
    launcher = box(exception_type="subprocess.CalledProcessError", exception_text="Command …")
    child = box(
        101,
        exception_type="KeyError",
        exception_text="'scraped'",
        exception_frames=[PythonFrame("/data/job/train.py", 35, "<module>")],
    )
    processes = [process(exit_code=1), process(101, "child", exit_code=1)]
    run = recorded(FAILED, processes=processes, boxes=[launcher, child])
    facts = collect_recorded(run).facts
    assert (facts["exception"], facts["where"]["line"]) == ("KeyError", 35)


def test_a_cell_s_exception_is_named_and_not_that_of_the_notebook_s_runner() -> None:
    message = (
        '\n-----\nException encountered at "In [5]":\n-----\n'
        "RuntimeError                 Traceback (most recent call last)\n"
        "Cell In[5], line 1\n----> 1 train(20)\n\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x3 and 4x1)\n"
    )
    raised = box(
        exception_type="papermill.exceptions.PapermillExecutionError",
        exception_text=message,
        exception_frames=[PythonFrame("/x/site-packages/papermill/execute.py", 251, "raise_for")],
    )
    facts = collect_recorded(recorded(FAILED, boxes=[raised])).facts
    assert facts["exception"] == "RuntimeError"
    assert "64x3" in facts["exception_text"]
    assert place_in_words(facts["where"]) == "cell 5, line 1"


def test_a_cell_that_hangs_is_not_named_by_a_number_of_the_kernel_s() -> None:
    place = {"file": "/tmp/ipykernel_101/3141592.py", "line": 5, "function": "<module>"}
    assert place_in_words(place) == "a cell of the notebook, line 5"


@pytest.mark.parametrize("phase", ["validate", "saving", "train"])
def test_a_bar_that_begins_anew_does_not_count_the_training(phase: str) -> None:
    run = recorded(FAILED, boxes=[box(optimizer_steps=10, history=steps(10), phase=phase)])
    printed = Observation("progress", "1/2", "output:40", {"step": 1, "total": 2})
    facts = collect_recorded(run, (), TextEvidence([printed], {"total": 2})).facts
    assert facts["last_step"] == 10
    assert "total" not in facts


def test_a_full_bar_says_that_an_epoch_is_done_and_not_which_step() -> None:
    run = recorded(FAILED, boxes=[box(optimizer_steps=24, history=steps(24), phase="train")])
    printed = Observation("progress", "8/8 - 0s", "output:40", {"step": 8, "total": 8})
    assert collect_recorded(run, (), TextEvidence([printed])).facts["last_step"] == 24


def test_what_is_seen_after_rerail_began_to_end_a_hang_is_not_the_hang() -> None:
    hang = Stall(30.0, 8.0, 4.0, "kill", {})
    dying = Stall(36.0, 5.0, 4.0, "kill", {})
    stopped = info(Outcome("hang", "hung and was stopped", signal="SIGKILL"))
    assert telling_stall(recorded(info=stopped, stalls=[hang, dying])) is hang
    assert telling_stall(recorded(FAILED, stalls=[hang, dying])) is dying


def diagnosed(outcome: Outcome, *observations: Observation) -> list[str]:
    found: Diagnosis = diagnose(Evidence(outcome, list(observations), origin="run"))
    return [candidate.cause.id for candidate in found.candidates]


def test_what_the_output_tells_of_a_kill_is_weighed_with_what_is_recorded_of_it() -> None:
    """The script went on without its workers and ended with 0."""
    said = Observation("exit-line", "workers: {SIGKILL(-9)}", "output:3", {"signal": "SIGKILL"})
    death = {"pid": 101, "signal": "SIGKILL", "was_swallowed": True, "role": "child"}
    died = Observation("death", "A child was killed.", "exit:101", death)
    nothing = Observation("no-oom-kill", "Nothing was killed.", "exit:101", {"pid": 101})
    well = Outcome("ok", "ended well", exit_code=0)
    assert diagnosed(well, said, died, nothing)[0] == "killed-from-outside"
    assert diagnosed(well, died, nothing) == []


def test_a_program_that_says_it_was_told_to_end_was_told_so_by_rerail_if_it_hung() -> None:
    text = observe_text([(6, "[rank: 0] Received SIGTERM: 15")]).observations
    ended = Outcome("signal", "killed", signal="SIGTERM")
    assert "scheduler-stopped" in diagnosed(ended, *text)
    assert diagnosed(Outcome("hang", "hung and was stopped", signal="SIGKILL"), *text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for a.weight",
            "state_dict for Net: size mismatch for a.weight",
        ),
        (
            "ValueError: Exception encountered when calling Model.call().\n\nExpected 6, got 8",
            "ValueError: Expected 6, got 8",
        ),
        (
            "xgboost.core.XGBoostError: [18:40:29] /w/src/data.cc:522: Check failed: a == b",
            "XGBoostError: Check failed: a == b",
        ),
        ("ValueError: bad row\nand more", "ValueError: bad row"),
    ],
)
def test_the_headline_says_what_is_wrong_and_not_only_that_something_is(
    text: str, said: str
) -> None:
    facts = {"exception_text": text, "exception": "Error"}
    headline = diagnose(Evidence(FAILED, [], facts, origin="run")).to_json()["headline"]
    assert said in headline and "and more" not in headline
