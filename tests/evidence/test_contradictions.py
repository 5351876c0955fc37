"""No answer contradicts the record that it was made from."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from run_builders import box, info, process, recorded

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS))
from contradictions import contradictions  # noqa: E402
from rerail.diagnosis import diagnose  # noqa: E402
from rerail.evidence import observe_text  # noqa: E402
from rerail.evidence.run.collect import collect_recorded, collect_run  # noqa: E402
from rerail.evidence.run.material import read_material  # noqa: E402
from rerail.evidence.settle import (  # noqa: E402
    PRECEDENCE,
    Claim,
    Source,
    settle,
    without_contradictions,
)
from rerail.records import Event, Outcome, PrintedPoint, PythonFrame  # noqa: E402
from rerail.store import RunFolder  # noqa: E402

RECORDINGS = sorted(path.parent for path in (TESTS / "recordings").glob("*/*/run.json"))
ENDED = Outcome("exit", "the command ended with exit code 1", exit_code=1, process="main")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_recording_is_not_contradicted(path: Path) -> None:
    folder = RunFolder(path)
    assert not contradictions(read_material(folder), diagnose(collect_run(folder)))


def test_a_step_of_the_first_training_is_none_of_the_second() -> None:
    raised = {"exception_type": "KeyError", "exception_text": "'label'", "started_t_seconds": 5.1}
    first = process(101, "child", exit_code=0, started_t_seconds=1.0, ended_t_seconds=5.0)
    second = process(102, "child", exit_code=1, started_t_seconds=5.1, ended_t_seconds=9.0)
    run = recorded(
        info=info(ENDED),
        processes=[process(100, "main", exit_code=1), first, second],
        boxes=[box(101, optimizer_steps=60), box(102, **raised)],
    )
    run = replace(run, printed=PrintedPoint(4.0, 60, 60, steps=60))
    diagnosis = diagnose(collect_recorded(run))
    assert "step" not in diagnosis.headline
    assert not contradictions(run, diagnosis)
    wrong = replace(diagnosis, facts={**diagnosis.facts, "last_step": 60, "total": 50})
    assert contradictions(run, wrong) == ["step 60 is beyond the total of 50"]


def test_a_peak_above_the_limit_that_held_is_not_told() -> None:
    facts = {"peak_rss_bytes": 965, "memory_limit_bytes": 900, "memory_notion": "proportional"}
    assert without_contradictions(facts) == {"memory_limit_bytes": 900}
    assert "peak_rss_bytes" in without_contradictions({**facts, "memory_limit_bytes": 1000})


def test_a_file_that_is_there_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "model.keras").write_bytes(b"PK" * 600)
    text = "File not found: filepath=model.keras. Please ensure the file is a `.keras` zip file."
    said = {"exception_type": "ValueError", "exception_text": text}
    raised = [PythonFrame("/home/me/train.py", 53, "load")]
    run = recorded(
        info=replace(info(ENDED), cwd=str(tmp_path), host=os.uname().nodename, started_unix=2e9),
        processes=[process(exit_code=1)],
        boxes=[box(exception_frames=raised, **said)],
    )
    diagnosis = diagnose(collect_recorded(run))
    assert "the file model.keras is there, with 1.2 KiB" in diagnosis.headline
    assert diagnosis.leading is None or diagnosis.leading.cause.id != "file-missing"
    (tmp_path / "model.keras").unlink()
    assert "is there" not in diagnose(collect_recorded(run)).headline


@pytest.mark.parametrize("is_sent", [True, False])
def test_nobody_pressed_the_keys_where_no_signal_is_on_record(is_sent: bool) -> None:
    frames = [PythonFrame("/home/me/cell.py", 5, "<module>")]
    events = [Event(3.0, "signal-forwarded", {"signal": "SIGINT"})] if is_sent else []
    run = recorded(
        info=info(ENDED),
        processes=[process(exit_code=1)],
        boxes=[box(exception_type="KeyboardInterrupt", exception_text="", exception_frames=frames)],
    )
    run = replace(run, events=events)
    printed = observe_text([(1, "KeyboardInterrupt")])
    diagnosis = diagnose(collect_recorded(run, (), printed))
    assert ("pressed Ctrl-C" in diagnosis.headline) == is_sent
    assert not contradictions(run, diagnosis)


def test_every_source_has_one_row_with_its_reason() -> None:
    assert sorted(row.source for row in PRECEDENCE) == sorted(get_args(Source))
    assert all(row.reason.endswith(".") for row in PRECEDENCE)


def test_facts_of_one_exception_stay_together() -> None:
    own = Claim("exception", {"exception_text": "KeyError: 'a'", "exception": "KeyError"})
    place: dict[str, Any] = {"where": {"file": "b.py", "line": 2}, "raised_at": "b.py:2 in f"}
    printed = Claim("output", {"exception_text": "OSError: b", "exception": "OSError", **place})
    crash = Claim("crash", {"where": {"file": "c.py", "line": 3}})
    assert settle([printed, own]) == own.facts
    assert settle([printed, own, crash])["where"] == crash.facts["where"]
    said = {**printed.facts, "where": {**place["where"], "process": "rank 1"}}
    assert settle([Claim("output", said)], first="rank 0") == {}
