"""Exceptions of any process get the answer that the same text in a log would get."""

from __future__ import annotations

from run_builders import box, info, process, recorded

from rerail.diagnosis.from_evidence import diagnose
from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.exceptions import traceback_of
from rerail.records import Outcome, PythonFrame

FRAMES = [
    PythonFrame("/venv/lib/python3.11/site-packages/numpy/lib/npyio.py", 4, "load"),
    PythonFrame("/home/me/data.py", 9, "__getitem__"),
    PythonFrame("/home/me/train.py", 3, "<module>"),
]
BAD_ZIP = {"exception_type": "zipfile.BadZipFile", "exception_text": "File is not a zip file"}
ENDED = Outcome("exit", "the command ended with exit code 1", exit_code=1, process="main")


def test_a_rank_whose_output_went_elsewhere_is_read_like_a_log() -> None:
    ranks = [process(101, "rank", rank=0, exit_code=1), process(102, "rank", rank=1, exit_code=1)]
    echo = {"exception_type": "RuntimeError", "exception_text": "Connection closed by peer"}
    run = recorded(
        info=info(ENDED),
        processes=[process(100, "launcher", exit_code=1), *ranks],
        boxes=[
            box(101, rank=0, **echo),
            box(102, rank=1, exception_frames=FRAMES, **BAD_ZIP),
        ],
    )
    diagnosis = diagnose(collect_recorded(run))
    assert diagnosis.causes[0].id == "data-corrupt"
    where = diagnosis.facts["where"]
    assert (where["file"], where["line"], where["process"]) == ("/home/me/data.py", 9, "rank 1")
    assert diagnosis.headline.startswith("zipfile.BadZipFile: File is not a zip file in data.py:9")


def test_an_exception_of_a_thread_does_not_say_where_the_run_failed() -> None:
    told = {"exception_text": "in Thread-1: no", "exception_thread": "Thread-1"}
    run = recorded(
        info=info(ENDED),
        processes=[process(exit_code=1)],
        boxes=[box(exception_type="ValueError", exception_frames=FRAMES, **told)],
    )
    evidence = collect_recorded(run)
    assert "where" not in evidence.facts
    (seen,) = [o for o in evidence.observations if o.kind == "exception"]
    assert seen.data["thread"] == "Thread-1"


def test_a_recorded_exception_is_matched_as_data() -> None:
    raised, words = traceback_of(box(exception_frames=FRAMES, **BAD_ZIP))
    assert raised.frames[0] == ("/home/me/train.py", 3, "<module>")
    assert (raised.type, raised.full_type) == ("BadZipFile", "zipfile.BadZipFile")
    assert [line.text for line in words] == ["zipfile.BadZipFile: File is not a zip file"]
    bare, words = traceback_of(box(exception_type="KeyError"))
    assert not bare.frames and [line.text for line in words] == ["KeyError"]


def test_the_words_of_a_message_are_not_taken_for_progress_or_for_ranks() -> None:
    said = "step 7/9: a sample is bad\n\n[rank3]: loss: nan\nTraining finished"
    run = recorded(
        info=info(ENDED),
        processes=[process(exit_code=1)],
        boxes=[box(exception_type="Bad", exception_text=said, exception_frames=FRAMES)],
    )
    facts = collect_recorded(run).facts
    assert not {"last_step", "total", "loss", "failed_first"} & set(facts)
    assert facts["exception_text"].startswith("Bad: step 7/9: a sample is bad")


def test_what_a_launcher_says_of_its_child_is_not_read_beside_the_childs_own_words() -> None:
    of_child = "Command '['make', 'train']' returned non-zero exit status 2."
    own = {"exception_type": "RuntimeError", "exception_text": "element 0 of tensors does not "
           "require grad and does not have a grad_fn"}  # fmt: skip
    run = recorded(
        info=info(ENDED),
        processes=[process(exit_code=1), process(101, "child", exit_code=1)],
        boxes=[
            box(exception_type="subprocess.CalledProcessError", exception_text=of_child),
            box(101, exception_frames=FRAMES, **own),
        ],
    )
    found = diagnose(collect_recorded(run))
    assert found.causes[0].id == "autograd-misuse"
    assert all(cause.id != "extension-build-failed" for cause in found.causes)
