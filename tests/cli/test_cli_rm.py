"""`rerail rm`: asks, refuses live runs, removes nothing else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.cli import main
from rerail.records import Outcome
from rerail.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / ".rerail")


def ended(store: Store, days_ago: float = 0.0) -> str:
    writer = store.create_run(["x"], "/", {}, False)
    writer.update_info(started_unix=writer.info.started_unix - days_ago * 86400)
    writer.finish(Outcome("ok", "well"), 1.0)
    return writer.id


def kept(store: Store) -> set[str]:
    return {info.id for info in store.list()}


def test_removing_by_name(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [ended(store) for _ in range(3)]
    assert main(["rm", "--yes", ids[0], ids[1]]) == 0
    assert capsys.readouterr().out.startswith("2 runs removed, ")
    assert kept(store) == {ids[2]}


def test_removing_by_age_leaves_the_young_and_the_living(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(store, days_ago=40)
    young = ended(store, days_ago=20)
    live = store.create_run(["x"], "/", {}, False)
    live.update_info(started_unix=live.info.started_unix - 90 * 86400)
    assert main(["rm", "--older-than", "30d", "--yes"]) == 0
    assert "1 run removed" in capsys.readouterr().out
    assert kept(store) == {young, live.id}


def test_a_live_run_is_refused_and_the_others_go(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    over = ended(store)
    live = store.create_run(["x"], "/", {}, False)
    assert main(["rm", "--yes", "--json", live.id, over]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["removed"] == [over]
    assert document["refused"][0]["id"] == live.id
    assert "still running" in captured.err
    assert kept(store) == {live.id}


def test_without_a_terminal_yes_is_needed(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = ended(store)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["rm", "last"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert kept(store) == {run_id}


@pytest.mark.parametrize(("answer", "is_kept"), [(b"n\n", True), (b"y\n", False)])
def test_on_a_terminal_it_asks(store: Store, answer: bytes, is_kept: bool) -> None:
    run_id = ended(store)
    ours, theirs = pty.openpty()
    try:
        asked = subprocess.Popen(
            [sys.executable, "-m", "rerail", "rm", "last"],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.write(ours, answer)
        _, told = asked.communicate(timeout=180)
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"Remove {run_id}".encode() in told
    assert (run_id in kept(store)) is is_kept
    assert asked.returncode == (130 if is_kept else 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rm"], "no run to remove was named"),
        (["rm", "--older-than", "soon", "--yes"], "is not a time"),
        (["rm", "nonesuch", "--yes"], "no run 'nonesuch'"),
    ],
)
def test_what_cannot_be_done_is_said(
    store: Store, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    ended(store)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
    assert len(kept(store)) == 1


def test_a_folder_of_another_store_is_not_removed(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = Store(tmp_path / "other")
    run_id = ended(other)
    ended(store)
    assert main(["rm", "--yes", str(other.runs / run_id)]) == 2
    assert "--home" in capsys.readouterr().err
    assert kept(other) == {run_id}
