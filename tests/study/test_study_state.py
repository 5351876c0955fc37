"""The journal is the study: whatever is left of it gives a state to go on from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_files import SMALL, study_of

from rerail.errors import RerailError, UsageError
from rerail.study.cells import expand
from rerail.study.journal import NAME, Journal, is_running, read_journal
from rerail.study.state import fold


def test_events_come_back_in_order_and_a_torn_tail_costs_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for at in range(3):
        journal.write("note", text=str(at))
    journal.close()
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-9])
    assert [event["text"] for event in read_journal(tmp_path)] == ["0", "1"]
    again = Journal(tmp_path)
    again.write("note", text="3")
    again.close()
    assert [event["text"] for event in read_journal(tmp_path)] == ["0", "1", "3"]


def test_a_second_study_on_the_folder_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert is_running(tmp_path)
    with pytest.raises(UsageError, match=f"process {os.getpid()}"):
        Journal(tmp_path)
    journal.close()
    assert not is_running(tmp_path)


def test_a_journal_of_another_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema": 7, "kind": "note"}\n')
    with pytest.raises(RerailError, match=r"schema 7.*schema 1"):
        read_journal(tmp_path)


CELL = "lr=0.1_width=2_seed=0"


def states_after(tmp_path: Path, *events: dict[str, Any]) -> Any:
    cells = expand(study_of(tmp_path, SMALL))
    return fold(cells, [{"cell": CELL, **event} for event in events])[CELL]


def test_a_cell_goes_from_waiting_to_done(tmp_path: Path) -> None:
    key = expand(study_of(tmp_path, SMALL))[0].key
    started = {"kind": "cell-started", "attempt": 1, "label": "x", "unix": 1.0}
    died = {"kind": "cell-ended", "verdict": "died", "cause": "host-oom", "seconds": 2.0,
            "decision": "again", "next_changes": ["dataloader-workers=0"]}  # fmt: skip
    assert states_after(tmp_path).state == "waiting"
    running = states_after(tmp_path, started)
    assert running.state == "running" and running.open_attempt is not None
    waiting = states_after(tmp_path, started, died)
    assert waiting.state == "waiting" and waiting.last.next_changes == ("dataloader-workers=0",)
    assert [a.cause for a in waiting.deaths] == ["host-oom"]
    given_up = states_after(tmp_path, started, {**died, "failure": "it would not help"})
    assert given_up.state == "failed" and given_up.failure == "it would not help"
    assert states_after(tmp_path, started, died, {"kind": "cell-again"}).state == "waiting"
    done = {"kind": "cell-done", "key": key, "metrics": {"psnr": 20, "bad": "x"}, "files": []}
    finished = states_after(tmp_path, started, died, started, done)
    assert finished.state == "done" and finished.metrics == {"psnr": 20.0}
    assert not finished.changed_since
    assert states_after(tmp_path, {**done, "key": "other"}).changed_since


@given(st.lists(st.dictionaries(st.text(), st.none() | st.integers() | st.text())))
def test_foreign_events_change_nothing(events: list[dict[str, Any]]) -> None:
    for event in events:
        event["kind"] = "from-the-future"
    assert fold([], events) == {}
