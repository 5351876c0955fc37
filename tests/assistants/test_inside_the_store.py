"""An assistant names runs of its store alone: no path and no link leads out of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.assistants.tools import Tools
from rerail.diagnosis import Diagnosis
from rerail.errors import UnknownRun
from rerail.records import Outcome
from rerail.store import RunFolder, Store

INSIDE, OUTSIDE, LINKED = "20260101-000000-0001", "20260101-000100-0002", "20260101-000200-0003"


def make_run(home: Path, run_id: str, label: str) -> Path:
    folder = Store(home).create_run(["python"], "/data", {}, False).path
    place = folder.rename(folder.parent / run_id)
    document = json.loads((place / "run.json").read_text())
    document |= {"id": run_id, "settings": {"label": label}}
    (place / "run.json").write_text(json.dumps(document))
    return place


def test_only_runs_of_the_store_are_answered_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "own store é"
    inside = make_run(home, INSIDE, "mine")
    outside = make_run(tmp_path / "other", OUTSIDE, "theirs")
    (home / "runs" / LINKED).symlink_to(outside)
    (tmp_path / "way in").symlink_to(inside)
    (tmp_path / "way out").symlink_to(outside)
    monkeypatch.chdir(outside.parent)
    tools = Tools(home)
    for name in ("last", INSIDE, "20260101-000000", "0001", "mine"):
        assert tools._folder(name).id == INSIDE, name
    for path in (inside, tmp_path / "way in", outside / ".." / ".." / ".." / inside):
        assert tools._folder(str(path)).id == INSIDE, path
    outer = [outside, tmp_path / "way out", home / "runs" / LINKED, tmp_path, inside / ".."]
    for name in (*map(str, outer), OUTSIDE, LINKED, "theirs", ".", "", "../..", "a\0b"):
        with pytest.raises(UnknownRun):
            tools._folder(name)
    assert [run["id"] for run in tools.runs()["recorded"]["runs"]] == [INSIDE]


def test_a_run_is_compared_with_runs_of_the_store_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "store"
    outside = make_run(tmp_path / "other", INSIDE, "theirs")
    make_run(home, OUTSIDE, "earlier")
    (home / "runs" / INSIDE).symlink_to(outside)
    make_run(home, LINKED, "asked")
    compared: list[str] = []

    def answer(_folder: object, history: list[RunFolder]) -> Diagnosis:
        compared.extend(folder.id for folder in history)
        return Diagnosis(Outcome("ok", "ended well"))

    monkeypatch.setattr("rerail.diagnosis.answer_on_record", answer)
    Tools(home).explain(LINKED)
    assert compared == [OUTSIDE]
