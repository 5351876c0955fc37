"""`rerail runs`: what is on record, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.cli import main
from rerail.records import Outcome
from rerail.report.run_table import ago
from rerail.store import RunWriter, Store


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
    assert lines[0] == "4 runs · 1 live · 2 failed"
    assert lines[1].split()[:3] == ["run", "lasted", "ago"]
    rows = {line.split()[-1]: line for line in lines[2:]}
    assert set(rows) == {run.id[-4:] for run in (ok, dead, left, live)}
    assert "75 s" in rows[ok.id[-4:]]
    assert rows[ok.id[-4:]].startswith("✓ train.py") and " ok " in rows[ok.id[-4:]]
    assert rows[dead.id[-4:]].startswith("✗ 'a b.py'")
    assert "SIGSEGV · native-segfault" in rows[dead.id[-4:]]
    assert "exit 3" in rows[left.id[-4:]] and "…" in rows[left.id[-4:]]
    assert rows[live.id[-4:]].startswith("● ") and "live" in rows[live.id[-4:]]
    assert "\x1b" not in rows[live.id[-4:]]


def test_label_step_and_headline(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    writer = store.create_run(["python", "train.py"], "/data", {"label": "ddp v4"}, False)
    writer.write_json(
        "diagnosis.json",
        {
            "headline": "It hung for 11 s in save.",
            "causes": [{"id": "lock-deadlock", "probability": 0.9}],
            "facts": {"last_step": 41220},
        },
    )
    writer.finish(Outcome("hang", "hung"), 75.0)
    assert main(["runs"]) == 0
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert "ddp v4" in row and "41,220" in row and "It hung for 11 s in save" in row
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["headline"] == "It hung for 11 s in save." and run["last_step"] == 41220
    assert run["group"] is None


@pytest.mark.parametrize("facts", [{"last_step": "x"}, {"last_step": -1}, [], None, 3])
def test_a_strange_diagnosis_costs_its_own_words(
    store: Store, capsys: pytest.CaptureFixture[str], facts: object
) -> None:
    writer = a_run(store, None)
    headline = {"headline": ["x"], "causes": [3], "facts": facts}
    writer.write_json("diagnosis.json", headline)
    writer.finish(Outcome("exit", "exit 1", None, 1), 1.0)
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["headline"] is None and run["last_step"] is None


@pytest.mark.parametrize("width", [20, 30, 50, 80, 120, 200])
def test_no_line_is_longer_than_the_terminal(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    a_run(store, Outcome("ok", "well"), "python", "x" * 300)
    a_run(store, None)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["runs"]) == 0
    assert all(len(line) <= width for line in capsys.readouterr().out.splitlines())


def test_ids_that_share_their_last_digits_are_given_whole(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (a_run(store, Outcome("ok", "well")) for _ in range(2))
    twin = store.runs / f"20260101-000000-{first.id[-4:]}"
    second.path.rename(twin)
    assert main(["runs"]) == 0
    shown = {line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]}
    assert shown == {first.id, twin.name}


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
