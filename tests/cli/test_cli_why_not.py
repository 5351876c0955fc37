"""`rerail explain --why-not CAUSE`: for the person who is sure that it is something else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail import cli
from rerail.catalogue import load_catalogue
from rerail.cli._why_not import MOST_LINES
from rerail.diagnosis import explain_logs
from rerail.diagnosis.why_not import SEEN_IN_TEXT

OOM = (
    'step 41 loss 0.3\nTraceback (most recent call last):\n  File "t.py", line 9, in main\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / "home"))
    path = tmp_path / "train.log"
    path.write_text(OOM)
    return path


def asked(capsys: pytest.CaptureFixture[str], cause: str, *more: str) -> str:
    assert cli.main(["explain", "train.log", "--why-not", cause, *more]) == 1
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], cause: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(asked(capsys, cause, "--json"))["why_not"]
    return answer


def test_which_cause_goes_before_it_and_what_was_not_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = asked(capsys, "host-oom")
    assert out.startswith("host-oom, below 0.01 %: ")
    assert "gpu-oom explains it better (9" in out and "[output:4]" in out
    assert 'a line such as "' in out
    assert "killed (exit-line: signal SIGKILL)" in out
    assert "recorded oom kill (oom-kill)" in out.partition("no log has")[2]


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    answer = as_json(capsys, "host-oom")
    assert set(answer) == {"id", "probability", "against", "missing"}
    assert answer["id"] == "host-oom" and answer["probability"] == 0.0
    assert answer["against"][0]["source"] == "output:4"
    weights = [item["weight"] for item in answer["missing"]]
    assert weights == sorted(weights, reverse=True) and min(weights) > 0


def test_the_probability_is_the_diagnosis_s_own(log: Path) -> None:
    diagnosis = explain_logs([log])
    for candidate in diagnosis.causes:
        assert diagnosis.why_not(candidate.id).probability == candidate.probability


def test_of_the_leading_cause_nothing_goes_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json(capsys, "gpu-oom")["against"] == []
    assert "nothing that was observed" in asked(capsys, "gpu-oom")


def test_a_sign_that_speaks_against_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    first = as_json(capsys, "peer-died")["against"][0]
    assert first["text"].startswith("a rank says why: torch.OutOfMemoryError")


def test_what_the_program_survived_is_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "".join(f"step {at} loss 0.2\n" for at in range(42, 60))
    log.write_text(OOM + steps + "KeyError: 'weight'\n")
    cli.main(["explain", "train.log", "--why-not", "gpu-oom", "--json"])
    against = json.loads(capsys.readouterr().out)["why_not"]["against"]
    assert any(item["text"].startswith("The program went on after this") for item in against)


@pytest.mark.parametrize("cause", sorted(load_catalogue().causes))
def test_every_cause_is_answered_in_a_few_narrow_lines(
    cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = asked(capsys, cause).splitlines()
    assert 3 <= len(lines) <= MOST_LINES == 12
    assert all(len(line) <= 80 for line in lines), lines


def test_a_hostile_log_cannot_drive_the_terminal(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text("RuntimeError: CUDA out of memory \x1b[2J\x1b]0;owned\x07 \x9b31m\u202e\n")
    out = asked(capsys, "host-oom")
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)


def test_an_unknown_cause_is_answered_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "train.log", "--why-not", "gpu-om"]) == 2
    assert "Did you mean gpu-oom" in capsys.readouterr().err
    assert cli.main(["explain", "train.log", "--why-not", "oom"]) == 2
    assert "gpu-oom or host-oom?" in capsys.readouterr().err


def test_each_file_gets_its_own(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.with_name("fine.log").write_text("epoch 1 loss 0.5\nTraining finished\n")
    names = ["train.log", "fine.log", "missing.log"]
    assert cli.main(["explain", "--each", "--json", "--why-not", "host-oom", *names]) == 2
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["why_not" in document for document in documents] == [True, True, False]
    assert documents[1]["why_not"]["against"][0]["text"].startswith("It ended well")


def test_of_a_recorded_run_everything_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import os; os.kill(os.getpid(), 9)"
    command = [sys.executable, "-m", "rerail", "run", "--no-explain", "--", sys.executable]
    subprocess.run([*command, "-c", program], check=False, timeout=240)
    cli.main(["explain", "last", "--why-not", "gpu-oom", "--json"])
    document = json.loads(capsys.readouterr().out)
    answer = document["why_not"]
    assert f"{document['causes'][0]['id']} explains it better" in answer["against"][0]["text"]
    assert not any(item["needs_recording"] for item in answer["missing"])
    texts = [item["text"] for item in answer["missing"]]
    assert len(set(texts)) == len(texts)


def test_what_a_log_can_show_is_what_the_page_says() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "evidence.md").read_text(encoding="utf-8")
    table = page.partition("From the text of a log")[2].partition("\n\nObservations of text")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    assert {kind for row in rows for kind in re.findall(r"`([^`]+)`", row)} == SEEN_IN_TEXT
