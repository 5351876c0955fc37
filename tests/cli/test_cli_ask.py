"""`rerail explain --ask URL`: a second opinion beside the answer, from a server that was named."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail import cli
from rerail.catalogue import load_catalogue
from rerail.store import Store

sys.path.insert(0, str(Path(__file__).parent.parent))
from chat_completions import MODEL, Server, naming, saying, serving

OOM = (
    'step 41 loss 0.3\nTraceback (most recent call last):\n  File "t.py", line 9, in main\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
KEY = "k3y" * 9


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path) -> Path:
    for name in ("RERAIL_ASK", "RERAIL_ASK_MODEL", "RERAIL_ASK_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "train.log"
    path.write_text(OOM)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    return " ".join(captured.out.split()), " ".join(captured.err.split())


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_opinion_stands_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(naming("gpu-fragmentation", "Tried to")) as server:
        assert cli.main(["explain", "train.log", "--ask", server.url]) == 1
    out, err = said(capsys)
    title = load_catalogue()["gpu-fragmentation"].title
    assert f"second opinion of {MODEL}: gpu-fragmentation, {title} (line 4)" in out
    assert "(gpu-oom, 9" in out
    assert server.url.removeprefix("http://") in err and " bytes " in err
    assert "secrets and names masked" in err


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["explain", "train.log", "--json"])
    alone = document(capsys)
    with serving(naming("host-oom", "Tried to")) as server:
        assert cli.main(["explain", "train.log", "--ask", server.url, "--json"]) == 1
    beside = document(capsys)
    opinion = beside.pop("second_opinion")
    assert beside == alone
    (line,) = opinion.pop("lines")
    assert opinion == {"id": "host-oom", "model": MODEL}
    assert set(line) == {"number", "text", "source"} and line["source"] == "output:4"


def test_no_answer_changes_neither_the_answer_nor_the_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(saying("\x1b[31mI refuse, dear user")) as server:
        assert cli.main(["explain", "train.log", "--ask", server.url]) == 1
    out, err = said(capsys)
    assert "no second opinion: the model's answer is not the JSON" in out
    assert "(gpu-oom, 9" in out
    assert "dear user" not in out + err


def test_a_variable_alone_sends_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(saying("{}")) as server:
        monkeypatch.setenv("RERAIL_ASK", server.url)
        assert cli.main(["explain", "train.log", "--json"]) == 1
        assert server.asked == [] and "second_opinion" not in document(capsys)
        assert cli.main(["explain", "train.log", "--json", "--ask"]) == 1
        assert len(server.questions) == 1 and "second_opinion" in document(capsys)


def test_the_key_is_sent_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERAIL_ASK_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "other" * 9)
    with serving(naming("gpu-oom", "Tried to")) as server:
        cli.main(["explain", "train.log", "--ask", server.url])
    out, err = said(capsys)
    assert {each.headers["Authorization"] for each in server.asked} == {f"Bearer {KEY}"}
    assert "with the key in RERAIL_ASK_KEY" in err
    assert KEY not in out + err


def test_without_a_key_none_is_sent_and_the_model_can_be_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(naming("gpu-oom", "Tried to")) as server:
        cli.main(["explain", "train.log", "--ask", server.url, "--ask-model", "big"])
    (asked,) = server.asked
    assert asked.document["model"] == "big" and "Authorization" not in asked.headers
    out, err = said(capsys)
    assert "second opinion of big: gpu-oom" in out
    assert f"sends {len(asked.raw):,} bytes" in err


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OOM.encode())))
    with serving(naming("gpu-oom", "Tried to")) as server:
        assert cli.main(["explain", "-", "--ask", server.url]) == 1
    assert "gpu-oom" in said(capsys)[0]


def test_each_file_is_asked_about_by_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "disk.log").write_text("OSError: [Errno 28] No space left on device\n")
    with serving(naming("gpu-oom", "Tried to")) as server:
        files = ["train.log", "missing.log", "disk.log"]
        assert cli.main(["explain", "--each", *files, "--json", "--ask", server.url]) == 2
    first, missing, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["second_opinion"]["id"] == "gpu-oom"
    assert "second_opinion" not in missing
    assert "no line" in last["second_opinion"]["error"]
    assert len(server.questions) == 2


def test_together_with_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(naming("gpu-oom", "Tried to")) as server:
        words = ["explain", "train.log", "--why-not", "host-oom", "--ask", server.url]
        assert cli.main(words) == 1
    out, _ = said(capsys)
    assert "explains it better" in out and f"second opinion of {MODEL}: gpu-oom" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ask", "http://192.0.2.1/v1"], "--ask-insecure"),
        (["--ask", "train.log"], "takes a URL"),
        (["--ask"], "RERAIL_ASK names none"),
        (["--ask-model", "x"], "--ask"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", "train.log", *words]) == 2
    out, err = said(capsys)
    assert says in err and out == ""


def test_a_recorded_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text("print('opening', flush=True)\nraise FileNotFoundError(2, 'no', 'x.bin')\n")
    run = [sys.executable, "-m", "rerail", "run", "--quiet", "--", sys.executable, str(program)]
    assert subprocess.run(run, capture_output=True, timeout=300).returncode == 1

    def ask(server: Server) -> dict[str, Any]:
        assert cli.main(["explain", "last", "--json", "--ask", server.url]) == 1
        return json.loads(capsys.readouterr().out)["second_opinion"]  # type: ignore[no-any-return]

    with serving(naming("file-missing", "FileNotFoundError: ")) as server:
        opinion = ask(server)
    assert opinion["id"] == "file-missing"
    assert opinion["lines"][0]["source"].startswith("output:")
    sent = server.questions[0].lines.values()
    assert any("opening" in text for text in sent)
    assert any("exit" in text for text in sent)  # what was recorded, beside what was printed
    (kept,) = (tmp_path / ".rerail" / "runs").glob("*/diagnosis.json")
    assert "second_opinion" not in json.loads(kept.read_text())
