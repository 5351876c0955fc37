"""`rerail runs`: experiments, studies and restarts are one row each, and filters find runs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rerail.cli import main
from rerail.records import Outcome
from rerail.store import RunWriter, Store

OK = Outcome("ok", "well")
CRASH = Outcome("signal", "SIGSEGV", "SIGSEGV")
STOPPED = Outcome("signal", "SIGTERM", "SIGTERM")
KEY = "0a1b2c3d4e5f"


def a_run(store: Store, outcome: Outcome | None, *command: str, **settings: Any) -> RunWriter:
    writer = store.create_run(command or ("python", "train.py"), "/data", settings, False)
    if outcome is not None:
        writer.finish(outcome, 7.0)
    return writer


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["runs", *arguments]) == 0
    return capsys.readouterr().out.splitlines()[2:]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["runs", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def an_investigation(store: Store) -> list[RunWriter]:
    """A labelled crash, and a confirmed investigation of it with two trials."""
    crash = a_run(store, CRASH, label="v4")
    trials = [
        a_run(store, CRASH, investigation=KEY, changes=[], label="isolate trial 1"),
        a_run(store, STOPPED, investigation=KEY, changes=["--n 0"], label="isolate trial 2"),
    ]
    answer = {
        "status": "confirmed",
        "changes": ["--n 0"],
        "confidence": 0.991,
        "command": ["python", "train.py"],
        "failure": {"run": trials[0].id},
        "earlier_runs": [crash.id],
        "trials": [
            {"changes": [], "outcome": "crashed", "exposure": 20, "run": trials[0].id},
            {"changes": ["--n 0"], "outcome": "stopped", "exposure": 22, "run": trials[1].id},
        ],
    }
    for trial in answer["trials"]:
        trial["unit"] = "steps"
    folder = store.home / "investigations"
    folder.mkdir()
    (folder / f"{KEY}.json").write_text(json.dumps({"answer": answer, "trials": []}))
    return [crash, *trials]


def test_an_investigation_is_one_row_with_its_answer(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    an_investigation(store)
    investigation, crash = printed(capsys)
    assert investigation.startswith("▸ isolate v4")
    assert "confirmed --n 0 99.1 % · 2 trials" in investigation
    assert investigation.endswith(KEY[:4])
    assert crash.startswith("✗ v4")


@pytest.mark.parametrize("name", ["--all", KEY, KEY[:4], "trial"])
def test_it_unfolds(store: Store, capsys: pytest.CaptureFixture[str], name: str) -> None:
    runs = an_investigation(store)
    lines = printed(capsys, runs[-1].id if name == "trial" else name)
    assert len(lines) == (4 if name == "--all" else 3)
    clean, failed = lines[1], lines[2]
    assert clean.startswith("✓   with --n 0") and "clean, stopped after 22 steps" in clean
    assert failed.startswith("✗   unchanged") and "failed after 20 steps" in failed
    assert not any("SIGTERM" in line for line in lines)


def test_a_trial_that_no_document_names_was_stopped_all_the_same(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(store, STOPPED, investigation=KEY, changes=["--n 0"])
    a_run(store, STOPPED)
    lines = printed(capsys, "--all")
    assert "SIGTERM" in lines[0] and lines[0].startswith("✗")
    assert lines[2].startswith("✓   with --n 0") and "clean, stopped" in lines[2]
    assert len(document(capsys, "--failed")["runs"]) == 1


def test_a_verification_is_one_row_with_its_references(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = a_run(store, CRASH, reference="f00d", changes=[])
    after = a_run(store, OK, verification="f00d", changes=["--n 0"])
    kept = {
        "status": "proven",
        "changes": ["--n 0"],
        "confidence": 0.95,
        "command": ["python", "train.py"],
        "trials": [{"changes": ["--n 0"], "outcome": "finished", "run": after.id}],
        "references": [{"changes": [], "outcome": "crashed", "run": before.id}],
    }
    after.write_json("verification.json", kept)
    (row,) = printed(capsys)
    assert row.startswith("▸ verify train.py") and "proven --n 0 95 % · 2 trials" in row


def test_a_study_and_a_restarted_run_are_one_row_each(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    first = a_run(store, CRASH, label="night")
    second = a_run(store, OK, story=first.id, previous_run=first.id, attempt=2)
    for outcome in (OK, CRASH, OK):
        a_run(store, outcome, study="ablation", cell="c")
    study, restarted = printed(capsys)
    assert study.startswith("▸ ablation")
    assert "3 runs · 2 ended well · 1 failed" in study
    assert restarted.startswith("✓ night") and "2 attempts · ok" in restarted
    assert restarted.endswith(second.id[-4:])
    assert len(printed(capsys, "ablation")) == 4
    groups = document(capsys)["groups"]
    assert [(group["kind"], group["key"]) for group in groups] == [
        ("study", "ablation"),
        ("restarts", first.id),
    ]
    assert groups[1]["runs"] == [second.id, first.id]


def test_the_document_lists_every_run_and_names_its_group(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = an_investigation(store)
    found = document(capsys)
    assert [run["id"] for run in found["runs"]] == [run.id for run in reversed(runs)]
    assert [run["group"] for run in found["runs"]] == [
        {"kind": "isolate", "key": KEY},
        {"kind": "isolate", "key": KEY},
        None,
    ]


def test_filters_find_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    dead = a_run(store, None, "python", "eval.py", label="Baseline")
    dead.write_json("diagnosis.json", {"causes": [{"id": "native-segfault", "probability": 0.9}]})
    dead.finish(CRASH, 7.0)
    live = a_run(store, None)
    a_run(store, OK, label="other")
    for arguments, wanted in (
        (["--live"], [live.id]),
        (["--failed"], [dead.id]),
        (["--cause", "native-segfault"], [dead.id]),
        (["--label", "base"], [dead.id]),
        (["--command", "EVAL.py"], [dead.id]),
        (["--command", "eval.py", "--live"], []),
    ):
        assert [run["id"] for run in document(capsys, *arguments)["runs"]] == wanted, arguments
    assert main(["runs", "--label", "nothing"]) == 0
    assert "No run on record is like that." in capsys.readouterr().out


def test_an_id_that_is_none_says_what_could_be_typed(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(store, OK)
    assert main(["runs", "nothing-like-it"]) == 2
    assert "rerail runs" in capsys.readouterr().err


@pytest.mark.parametrize("rubbish", ["{", "[]", '{"answer": 3, "trials": 4}', '{"answer": {}}'])
def test_a_broken_notebook_costs_its_words(
    store: Store, capsys: pytest.CaptureFixture[str], rubbish: str
) -> None:
    an_investigation(store)
    (store.home / "investigations" / f"{KEY}.json").write_text(rubbish)
    assert "isolate" in printed(capsys)[0]


def test_a_live_run_that_stands_still_says_where(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    live = a_run(store, None, label="hang")
    live.update_info(root_pid=1)
    live.event("stall", t_seconds=0.0, silent_seconds=48.0)
    frames = [
        {"file": "/usr/lib/python3.11/threading.py", "line": 3, "function": "wait"},
        {"file": "/data/hang.py", "line": 7, "function": "save"},
    ]
    stall = {
        "t_seconds": 0.0,
        "silent_seconds": 48.0,
        "threshold_seconds": 40.0,
        "action": "report",
        "stacks": {"1-1": [{"thread_id": 1, "name": "main", "native": [], "python": frames}]},
    }
    live.append("stalls.jsonl", {"schema": 1, **stall})
    (row,) = printed(capsys, "--live")
    assert row.startswith("! hang")
    assert re.search(r"STUCK [\w ]+ in hang\.py:7 save\(\)", row)  # the clock goes on


def test_a_trial_that_rerail_stopped_is_clean_wherever_it_is_shown(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed, stopped = an_investigation(store)[-2:]
    for command in (["show"], ["explain"], ["explain", "--json"]):
        assert main([*command, stopped.id]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "Clean for 22 steps with --n 0, then stopped by" in said
        assert "SIGTERM" not in said and "scheduler" not in said
        main([*command, crashed.id])
        assert "Clean for" not in capsys.readouterr().out
    rows = {row["id"]: row for row in document(capsys, "--all")["runs"]}
    assert rows[stopped.id]["headline"] == "clean, stopped after 22 steps"
    assert rows[stopped.id]["outcome"]["signal"] == "SIGTERM"  # the fact stays what it was
