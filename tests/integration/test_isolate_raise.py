"""`rerail isolate --raise-hazard` on a command that is slow to die."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail import cli

SLOW = str(Path(__file__).parent.parent / "programs" / "isolate_slow.py")


def ask(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    program: list[str],
) -> tuple[dict[str, Any], str]:
    monkeypatch.chdir(folder)
    before = signal.getsignal(signal.SIGTERM)
    command = [sys.executable, SLOW, "--mine-every", "100", "--turns", str(folder / "turns")]
    tries = ["--try", "--miner none", "--try", "--colour blue"]
    options = ["--home", str(folder / "home"), "--json", "--max-trials", "40", *arguments]
    cli.main(["isolate", "--yes", *options, *tries, "--", *command, *program])
    signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr()
    document: dict[str, Any] = json.loads(said.out)
    return document, said.err


@pytest.mark.thorough
def test_a_slow_failure_comes_sooner_in_all_trials_and_the_answer_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A budget into which fewer than ten failures fit: nobody has to ask for it.
    document, said = ask(tmp_path, capsys, monkeypatch, ["--budget", "30s"], [])
    raised = document["raised"]
    assert raised["adopted"] and raised["changes"] == ["--mine-every 10"]
    assert raised["ratio"] > 2 and raised["chance_higher"] >= 0.95
    assert document["status"] == "confirmed" and document["changes"] == ["--miner none"]
    first, *others = document["trials"]
    assert "raised" not in first
    assert all(trial["raised"] == ["--mine-every 10"] for trial in others)
    assert "the answer is for that setting" in said
    for trial in others:
        record = json.loads((tmp_path / "home" / "runs" / trial["run"] / "run.json").read_text())
        words = record["command"]
        assert words[words.index("--mine-every") + 1] == "10"
        assert record["settings"]["changes"] == ["--mine-every 10", *trial["changes"]]


@pytest.mark.slow
def test_what_does_not_make_it_fail_sooner_is_dropped_and_the_command_tried_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document, said = ask(tmp_path, capsys, monkeypatch, ["--raise-hazard"], ["--harmless"])
    assert not document["raised"]["adopted"]
    assert "was tried and not kept" in said
    assert document["status"] == "confirmed" and document["changes"] == ["--miner none"]
    changed = [trial for trial in document["trials"] if trial["changes"]]
    assert changed and not any("raised" in trial for trial in changed)


@pytest.mark.thorough
def test_nothing_is_raised_where_that_is_not_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--no-raise-hazard", "--budget", "8s"]
    document, _ = ask(tmp_path, capsys, monkeypatch, options, [])
    assert document["raised"] is None
    assert not any("raised" in trial for trial in document["trials"])
