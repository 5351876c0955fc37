"""`rerail runs`: what is on record, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.cli import main
from rerail.cli.runs import ago
from rerail.records import Outcome
from rerail.store import RunWriter, Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / ".rerail")


def a_run(store: Store, outcome: Outcome | None, *command: str) -> RunWriter:
    writer = store.create_run(command or ("python", "train.py"), "/data", {}, False)
    if outcome is not None:
        writer.finish(outcome, 75.0)
    return writer


def test_an_empty_store_says_what_to_type(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    # Named, since somebody's store may lie above the temporary folder.
    assert main(["runs", "--home", str(store.home)]) == 0
    text = capsys.readouterr().out
    assert "Nothing is recorded in" in text
    assert "rerail run -- CMD" in text


def test_the_table(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    ok = a_run(store, Outcome("ok", "well"))
    dead = a_run(store, Outcome("signal", "SIGSEGV", "SIGSEGV"), "/usr/bin/python", "a b.py")
    dead.write_json("diagnosis.json", {"causes": [{"id": "native-segfault", "probability": 0.9}]})
    left = a_run(store, Outcome("exit", "exit 3", None, 3), "sh", "-c", "x" * 200)
    live = a_run(store, None, "echo", "two\nlines\x1b[31m")
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = {line.split()[0]: line for line in lines}
    assert next(iter(rows)) == "run"
    assert "75 s" in rows[ok.id]
    assert " ok " in rows[ok.id]
    assert "SIGSEGV" in rows[dead.id]
    assert "native-segfault" in rows[dead.id]
    assert "python 'a" in rows[dead.id]
    assert "exit 3" in rows[left.id]
    assert rows[left.id].endswith("…")
    assert "running" in rows[live.id]
    assert "\x1b" not in rows[live.id]


def test_filters(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    a_run(store, Outcome("ok", "well"))
    bad = [a_run(store, Outcome("exit", "exit 1", None, 1)).id for _ in range(3)]
    assert main(["runs", "--failed", "--json", "-n", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert [run["id"] for run in document["runs"]] == bad[:0:-1]
    assert main(["runs", "--failed", "-n", "2"]) == 0
    assert "1 older ones are not shown" in capsys.readouterr().out


def test_nothing_failed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    a_run(store, Outcome("ok", "well"))
    assert main(["runs", "--failed"]) == 0
    assert "No run on record has failed" in capsys.readouterr().out


def test_json_of_one_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    writer = a_run(store, Outcome("signal", "SIGKILL", "SIGKILL"))
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["folder"] == str(writer.path)
    assert run["outcome"]["signal"] == "SIGKILL"
    assert run["elapsed_seconds"] == 75.0
    assert run["cause"] is None
    assert run["size_bytes"] > 0


def test_the_home_may_be_named(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = Store(tmp_path / "other")
    writer = a_run(other, Outcome("ok", "well"))
    assert main(["runs", "--json", "--home", str(other.home)]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["id"] == writer.id


def test_the_nearest_parents_store_is_read(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = a_run(store, Outcome("ok", "well"))
    deep = store.home.parent / "src" / "model"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["id"] == writer.id


@pytest.mark.parametrize(
    ("seconds", "said"), [(5, "now"), (300, "5 min"), (7300, "2 h"), (9 * 86400, "9 d")]
)
def test_ago(seconds: float, said: str) -> None:
    assert ago(seconds) == said
