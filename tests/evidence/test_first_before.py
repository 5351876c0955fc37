"""An exception that misses something follows from the failure of whoever should have left it."""

from __future__ import annotations

import pytest
from run_builders import box, process, recorded

from rerail.diagnosis.from_evidence import diagnose
from rerail.diagnosis.result import Diagnosis
from rerail.evidence.first.before import failed_before
from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.logs import observe_text
from rerail.records import AfterDeath, Outcome, PythonFrame

ENDED = Outcome("exit", "the command ended with exit code 1", exit_code=1, process="main")
IN_A_PIPE = PythonFrame("/usr/lib/python3.11/multiprocessing/connection.py", 399, "_recv")
MISSED = "[Errno 2] No such file or directory: 'trials/1/metrics.json'"
FIT = ["python", "fit.py", "--out", "trials/1"]


def answered(run: RecordedRun, output: str = "") -> Diagnosis:
    return diagnose(collect_recorded(run, (), observe_text(enumerate(output.split("\n"), 1))))


def lost_a_pipe(child_raised_t: float) -> RecordedRun:
    parent = box(
        exception_type="EOFError",
        exception_t_seconds=50.0,
        exception_frames=[IN_A_PIPE, PythonFrame("/data/job/vec.py", 89, "step")],
    )
    child = box(
        101,
        exception_type="IndexError",
        exception_text="tuple index out of range",
        exception_t_seconds=child_raised_t,
        exception_frames=[PythonFrame("/data/job/env.py", 43, "gust")],
    )
    processes = [process(exit_code=1), process(101, "multiprocessing", exit_code=1)]
    return recorded(ENDED, processes=processes, boxes=[parent, child])


def missed_a_file(text: str = MISSED, command: list[str] = FIT, **child: object) -> RecordedRun:
    parent = box(
        exception_type="FileNotFoundError",
        exception_text=text,
        exception_t_seconds=50.0,
        exception_frames=[PythonFrame("/data/job/sweep.py", 41, "main")],
    )
    ending = {"exit_code": 1} if child else {"signal": "SIGKILL"}
    fit = process(101, "child", command=command, ended_t_seconds=40.0, **ending)
    boxes = [parent, box(101, **child)]
    after = AfterDeath(machine_oom_kills=0)
    return recorded(ENDED, processes=[process(exit_code=1), fit], boxes=boxes, after=after)


def test_what_a_child_raised_comes_before_the_end_of_its_pipe() -> None:
    found = answered(lost_a_pipe(49.9))
    expected = "IndexError: tuple index out of range in env.py:43 gust() (child process, pid 101)"
    assert found.headline == f"{expected}; then EOFError."
    where = found.facts["where"]
    assert (where["line"], where["process"]) == (43, "child process (pid 101)")
    assert found.causes[0].id == "index-out-of-range"


def test_what_a_child_raised_after_its_parent_is_not_the_reason() -> None:
    run = lost_a_pipe(50.1)
    assert failed_before(run, run.boxes[0]) is None
    assert answered(run).facts["exception"] == "EOFError"


def test_a_missing_file_follows_from_the_training_that_should_have_written_it() -> None:
    frames = [PythonFrame("/data/job/fit.py", 30, "train")]
    raised = {"exception_type": "KeyError", "exception_text": "'gelu'", "exception_frames": frames}
    found = answered(missed_a_file(**raised, exception_t_seconds=39.0))
    assert found.headline.startswith("KeyError: 'gelu' in fit.py:30 train() (child process fit.py")
    assert found.headline.endswith(f"then FileNotFoundError: {MISSED}.")
    assert "file-missing" not in [cause.id for cause in found.causes]


def test_a_missing_file_follows_from_the_training_that_was_killed() -> None:
    found = answered(missed_a_file())
    assert found.causes[0].id == "killed-from-outside"
    assert found.headline.startswith("Somebody killed") and "SIGKILL" in found.headline
    assert found.headline.endswith(f"; then FileNotFoundError: {MISSED}.")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (MISSED, ["python", "fit.py", "--out", "trials/12"]),
        (MISSED, ["python", "fit.py", "--root", "."]),
        (MISSED, ["python", "fit.py", "--root", "/data"]),
        ("[Errno 2] No such file or directory: 'config.yaml'", FIT),
    ],
)
def test_a_missing_file_elsewhere_has_nothing_to_do_with_a_killed_child(
    text: str, command: list[str]
) -> None:
    found = answered(missed_a_file(text, command))
    assert found.headline.startswith(f"FileNotFoundError: {text} in sweep.py:41 main()")
    assert "; then" not in found.headline


THREAD = """Exception in thread evaluator:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/data/job/forecast.py", line 67, in run
    values = [r[self.key] for r in rows]
KeyError: 'MW'
"""
MAIN = """Traceback (most recent call last):
  File "/data/job/forecast.py", line 141, in main
    print(results[0])
"""


@pytest.mark.parametrize(
    ("kind", "text", "follows"),
    [
        ("IndexError", "list index out of range", True),
        ("TypeError", "'NoneType' object is not subscriptable", True),
        ("ConnectionError", "no route to the store", False),
    ],
)
def test_a_result_that_is_missing_follows_from_the_thread_that_had_raised(
    kind: str, text: str, follows: bool
) -> None:
    frames = [PythonFrame("/data/job/forecast.py", 141, "main")]
    raised = {"exception_type": kind, "exception_text": text, "exception_frames": frames}
    run = recorded(
        ENDED, processes=[process(exit_code=1)], boxes=[box(exception_t_seconds=50.0, **raised)]
    )
    found = answered(run, f"{THREAD}{MAIN}{kind}: {text}\n")
    if follows:
        of_thread = "KeyError: 'MW' in forecast.py:67 run() (the thread of run())"
        assert found.headline == f"{of_thread}; then {kind}: {text}."
        assert found.facts["where"]["line"] == 67
    else:
        assert found.headline.startswith(f"{kind}: {text} in forecast.py:141 main()")
        assert "KeyError" not in found.headline


@pytest.mark.parametrize(
    ("kind", "text", "follows"),
    [
        ("ValueError", "min() arg is an empty sequence", True),
        ("KeyError", "'epochs'", False),
    ],
)
def test_what_the_program_said_to_have_failed_is_said_second_of_an_empty_result(
    kind: str, text: str, follows: bool
) -> None:
    frames = [PythonFrame("/data/job/cv.py", 80, "main")]
    raised = {"exception_type": kind, "exception_text": text, "exception_frames": frames}
    run = recorded(
        ENDED, processes=[process(exit_code=1)], boxes=[box(exception_t_seconds=50.0, **raised)]
    )
    said = "fold 3 failed: could not convert string to float: 'unknown'"
    output = (
        f'{said}\nTraceback (most recent call last):\n  File "/data/job/cv.py", line 80, in main'
    )
    found = answered(run, f"{output}\n    best = min(results)\n{kind}: {text}\n")
    assert found.headline.startswith(f"{kind}: {text} in cv.py:80 main()")
    assert found.headline.endswith(f"; before that {said}.") is follows
