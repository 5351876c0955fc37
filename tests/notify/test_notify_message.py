"""What is said: the fact first, bounded in every part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rerail.catalogue import load_catalogue
from rerail.diagnosis import Candidate, Diagnosis, NextStep
from rerail.notify import message
from rerail.records import Outcome

ABOUT: dict[str, Any] = {
    "id": "20260102-030405-22fc",
    "short": "22fc",
    "host": "gpu-3",
    "label": "leak",
    "at_unix": 0.0,
    "elapsed_seconds": 26.0,
}
DIED = Diagnosis(
    Outcome("signal", "the command was killed by SIGKILL after 26 s"),
    (Candidate(load_catalogue()["host-memory-leak"], 0.957),),
    {"last_step": 1304},
    headline_on_record="Memory grew 1.5 MiB every step; the kernel killed it at step 304.",
)


def test_a_death_reads_fact_then_where_then_what_to_type() -> None:
    told = message.of_death(ABOUT, DIED)
    assert told.text.splitlines() == [
        "died: Memory grew 1.5 MiB every step; the kernel killed it at step 304.",
        "host-memory-leak 96 % · step 1,304 · after 26 s · Thu 00:00 UTC · gpu-3 · run 22fc (leak)",
        "rerail explain 22fc",
    ]
    assert told.to_json()["cause"] == {"id": "host-memory-leak", "probability": 0.957}
    assert told.variables()["RERAIL_CAUSE"] == "host-memory-leak"


def test_the_next_experiment_is_what_to_type_if_there_is_one() -> None:
    following = NextStep("…", "rerail isolate -- python train.py")
    told = message.of_death(ABOUT, replace(DIED, next_step=following), "not started again: why")
    assert told.text.splitlines()[-2:] == ["not started again: why", following.command]


def test_a_stall_names_the_place_and_asks_for_stacks() -> None:
    told = message.of_stall(ABOUT, 48.0, "in hang.py:7 save()", 20, is_last=False)
    assert told.headline == "stuck for 48 s in hang.py:7 save()"
    assert told.next_command == "rerail stacks 22fc"
    last = message.of_stall(ABOUT, 48.0, "", None, is_last=True)
    assert "without a step or output" in last.headline and "not sent" in last.text


def test_success_is_one_line() -> None:
    told = message.of_success(ABOUT, "finished after 39 s, step 1,878 · run 22fc", 1878)
    assert told.text == "finished after 39 s, step 1,878 · run 22fc (leak) on gpu-3"
    assert told.to_json()["step"] == 1878


@given(st.text(), st.text(), st.dictionaries(st.text(), st.integers() | st.text()))
def test_whatever_a_run_says_the_message_is_bounded_and_plain(
    headline: str, label: str, facts: dict[str, Any]
) -> None:
    about = {**ABOUT, "label": label * 50}
    died = replace(
        DIED,
        facts=facts,
        headline_on_record=headline * 50,
        next_step=NextStep(headline, headline * 50),
    )
    for told in (
        message.of_death(about, died, headline * 50),
        message.of_stall(about, 1e9, headline * 50, None, is_last=True),
        message.of_success(about, headline * 50),
    ):
        assert len(told.text) <= message.MOST_TEXT
        assert len(told.text.splitlines()) <= 5
        assert all(line.isprintable() for line in told.text.split("\n"))
        assert all("\0" not in value for value in told.variables().values())
