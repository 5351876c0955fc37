"""What the end of a log says as an error, where nothing was raised."""

from __future__ import annotations

import pytest

from rerail.diagnosis import diagnose
from rerail.evidence import observe_text
from rerail.records import Evidence, Observation, Outcome


def said(text: str) -> list[Observation]:
    found = observe_text(enumerate(text.split("\n"), 1))
    return [o for o in found.observations if o.kind == "last-words"]


@pytest.mark.parametrize(
    "line",
    [
        "[ERROR] the exporter gave up on shard 7",
        "2026-02-18 10:28:25,497 - runner - ERROR - the exporter gave up",
        "trainer: error: the exporter gave up",
        "Error executing the job with 4 settings",
        "INTERNAL: the exporter gave up",
        'ts=2026-11-19T21:31:10Z event=error msg="the exporter gave up"',
    ],
)
def test_a_line_that_is_marked_as_an_error_is_what_it_says_last(line: str) -> None:
    (words,) = said(f"building the model\n{line}\n")
    assert words.data["is_marked"] is True
    assert "gave up" in words.data["message"] or "Error executing" in words.data["message"]


def test_a_sentence_counts_only_before_anything_has_begun() -> None:
    (words,) = said("building the model\nthe exporter could not reach its disk")
    assert words.data["is_marked"] is False
    assert said("step 1 loss 0.5\nstep 2 loss 0.4\nthe exporter could not reach its disk") == []


def test_who_ended_the_job_counts_behind_progress_too() -> None:
    (words,) = said("step 1 loss 0.5\nstep 2 loss 0.4\njob 771 was cancelled by root")
    assert "cancelled" in words.text


@pytest.mark.parametrize(
    "text",
    [
        "[ERROR] a reader failed\nstep 1 loss 0.5\nstep 2 loss 0.4\nstep 3 loss 0.3",
        "[INFO] no error: 0 failed",
        "WARNING: the cache could not be opened",
        "E external/xla/slow_operation_alarm.cc:65] compiling is taking a while",
        "checked 2000 images, 0 corrupted",
    ],
)
def test_what_was_survived_or_is_no_failure_is_none(text: str) -> None:
    assert said(text) == []


def test_an_exception_goes_before_it() -> None:
    assert said("[ERROR] see below\nValueError: the exporter gave up") == []


@pytest.mark.parametrize(
    "line", ["[ERROR] the exporter gave up", "the exporter exited with code 1"]
)
def test_of_a_run_that_ended_well_the_words_say_nothing(line: str) -> None:
    found = observe_text(enumerate([line], 1))
    failed = Evidence(found.outcome, found.observations, found.facts)
    ended_well = Evidence(Outcome("ok", "It ended well."), found.observations, found.facts)
    assert diagnose(failed).leading is not None
    assert diagnose(ended_well).leading is None
