"""Where the answer of an investigation is kept: beside the runs whose pages it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.experiments import investigation_answer
from rerail.experiments.isolation.answer import FILE_NAME, keep_with_run, runs_with_failure
from rerail.records import Outcome
from rerail.store import Store

CRASH = Outcome("signal", "killed by SIGSEGV", "SIGSEGV")
FAILURE = {"kind": "signal", "signal": "SIGSEGV", "exit_code": None, "cause": "native-segfault"}


def a_run(store: Store, outcome: Outcome, cause: str | None = None) -> str:
    writer = store.create_run(["python", "train.py"], "/data", {}, False)
    if cause is not None:
        writer.write_json("diagnosis.json", {"causes": [{"id": cause, "probability": 0.9}]})
    writer.finish(outcome, 1.0)
    return writer.id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".rerail")


def test_runs_with_the_failure_are_told_from_others(store: Store) -> None:
    same = [a_run(store, CRASH, "native-segfault"), a_run(store, CRASH)]
    others = [
        a_run(store, Outcome("ok", "well")),
        a_run(store, CRASH, "heap-corruption"),
        a_run(store, Outcome("exit", "exit 1", None, 1), "native-segfault"),
        "20260101-000000-gone",
    ]
    assert runs_with_failure(store, FAILURE, [*same, *others]) == same


def test_the_answer_is_kept_beside_every_run_that_showed_the_failure(store: Store) -> None:
    users, well, trial = (
        a_run(store, CRASH, "native-segfault"),
        a_run(store, Outcome("ok", "well")),
        a_run(store, CRASH),
    )
    document = {
        "status": "confirmed",
        "failure": {**FAILURE, "run": trial},
        "earlier_runs": [users, well],
        "trials": [{"run": trial, "outcome": "crashed", "changes": []}],
    }
    keep_with_run(document, store)
    kept = {path.parent.name for path in store.runs.glob(f"*/{FILE_NAME}")}
    assert kept == {users, trial}


def test_an_investigation_under_way_gives_its_trials(store: Store) -> None:
    folder = store.home / "investigations"
    folder.mkdir(parents=True)
    (folder / "abc123.json").write_text(
        json.dumps({"answer": None, "trials": [{"run": "x"}], "command": ["python"]})
    )
    assert investigation_answer(store.home, "abc123") == {
        "status": "",
        "trials": [{"run": "x"}],
        "command": ["python"],
    }
    for key in ("", "../abc123", "abc123.json", "nothing"):
        assert investigation_answer(store.home, key) == {}
