"""`rerail explain` as people and scripts use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail import cli
from rerail.report.terminal import MOST_LINES

OOM = "step 41 loss 0.3\nTraceback (most recent call last):\n  File \"t.py\", line 9, in main\n" \
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"  # fmt: skip
HEALTHY = "epoch 1 loss 0.5\nepoch 2 loss 0.4\nTraining finished\n"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / "home"))
    return tmp_path


def log(name: str, text: str | bytes) -> str:
    path = Path(name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["explain", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_death_is_explained_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = asked(capsys, log("train.log", OOM))
    lines = out.splitlines()
    assert status == 1
    assert len(lines) <= MOST_LINES and all(len(line) <= 80 for line in lines)
    assert "gpu-oom" in out and "[output:4]" in out and "step 41" in out
    words = " ".join(out.split())
    assert words.index("[safe]") < words.index("[changes results]")


def test_a_healthy_log_has_no_cause(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = asked(capsys, "--json", log("fine.log", HEALTHY))
    document = json.loads(out)
    assert (status, document["causes"], document["outcome"]["kind"]) == (0, [], "ok")


def test_the_document_is_the_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = asked(capsys, "--json", log("train.log", OOM))
    document: dict[str, Any] = json.loads(out)
    assert set(document) <= {"schema", "outcome", "causes", "headline", "facts", "next"}
    assert set(document["outcome"]) == {"kind", "signal", "exit_code", "process", "summary"}
    cause = document["causes"][0]
    assert {"id", "probability", "title", "for", "against", "remedies"} == set(cause)
    assert {remedy["safety"] for remedy in cause["remedies"]} <= {
        "safe", "changes-results", "hides-it"
    }  # fmt: skip


def test_several_files_are_ranks_of_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    echo = "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:9\n"
    files = [log("rank0.log", echo), log("rank1.log", OOM), log("rank2.log", echo)]
    _, out, _ = asked(capsys, "--json", *files)
    document = json.loads(out)
    assert document["causes"][0]["id"] == "gpu-oom"
    assert document["facts"]["failed_first"] == "rank 1"
    assert document["causes"][0]["for"][0]["source"] == "rank1.log:4"


def test_time_stamps_decide_who_failed_first(capsys: pytest.CaptureFixture[str]) -> None:
    late = "2024-05-01 10:00:09 KeyError: 'b'\n"
    early = "2024-05-01 10:00:03 OSError: [Errno 28] No space left on device\n"
    _, out, _ = asked(capsys, "--json", log("node0.log", late), log("node1.log", early))
    document = json.loads(out)
    assert document["facts"]["failed_first"] == "rank 1"
    assert document["causes"][0]["id"] == "disk-full"


def test_a_folder_of_logs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job").mkdir()
    log("job/rank0.log", HEALTHY)
    log("job/rank1.log", OOM)
    assert asked(capsys, "job")[0] == 1


def test_each_answers_in_order_one_document_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    files = [log("a", OOM), log("b", HEALTHY), log("c", b""), log("d", OOM)]
    status, out, err = asked(capsys, "--each", "--json", *files)
    documents = [json.loads(line) for line in out.splitlines()]
    assert [bool(document["causes"]) for document in documents] == [True, False, False, True]
    assert "c is empty" in documents[2]["error"] and "c is empty" in err
    assert status == 2


def test_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "explain", "-", "--json"],
        input=OOM.encode(), capture_output=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr == b""
    assert json.loads(done.stdout)["causes"][0]["id"] == "gpu-oom"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.log", b"", "is empty"),
        ("binary.log", bytes(range(256)) * 40, "not a text file"),
        ("missing.log", None, "missing.log"),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(
    name: str, content: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        log(name, content)
    status, out, err = asked(capsys, name)
    assert (status, out) == (2, "")
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("document", "said"),
    [("{}", ""), ('{"schema": 99}', "99"), ('{"sch', ""), (None, "")],
    ids=["nothing in it", "of another schema", "torn", "no run.json at all"],
)
def test_a_damaged_run_folder_is_a_sentence(
    document: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path("home/runs/20261115-232550-a3f1")
    folder.mkdir(parents=True)
    (folder / "output.log").write_text(OOM)
    if document is not None:
        (folder / "run.json").write_text(document)
    status, _, err = asked(capsys, "20261115-232550-a3f1")
    assert status == 2
    assert said in err and "Traceback" not in err and "defect" not in err
    assert (folder / "output.log").read_text() == OOM


def test_a_mixture_of_runs_and_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = asked(capsys, log("a.log", OOM), "last")
    assert status == 2 and "not a file" in err


def test_a_hostile_log_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "RuntimeError: CUDA out of memory \x1b[2J\x1b]0;owned\x07 \x9b31m\u202e\n"
    _, out, _ = asked(capsys, log("h.log", hostile))
    assert "\x1b" not in out and "\x9b" not in out and "\u202e" not in out
