"""`rerail check`: the table, the document, the exit status, and what it says of wrong input."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from rerail.cli import main


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("KMP_DUPLICATE_LIB_OK", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_environment_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["check", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1 and document["memory"] is None
    assert status == int(any(f["level"] == "fatal" for f in document["findings"]))
    for finding in document["findings"]:
        assert finding["level"] in ("fatal", "risky", "fine")
        assert finding["id"] and finding["title"] and isinstance(finding["do"], list)


def test_bad_news_comes_first_with_what_to_type(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "TRUE")
    script = place / "train.py"
    script.write_text("import multiprocessing as m\nm.set_start_method('spawn')\nm.Pool(2)\n")
    assert main(["check", "--no-run", "--", sys.executable, "train.py"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("fatal") and "main guard" in text.splitlines()[0]
    assert "unset KMP_DUPLICATE_LIB_OK" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.index("fatal") < text.index("risky") < text.index("fine")


def test_fix_writes_a_snippet_and_runs_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "1")
    assert main(["check", "--fix", "--json", "--no-run", "--", sys.executable, "-c", "1"]) == 0
    caught = capsys.readouterr()
    document = json.loads(caught.out)
    path = Path(document["fix"])
    assert path.parent == place and "unset KMP_DUPLICATE_LIB_OK" in path.read_text()
    assert str(path) in caught.err


def test_a_dry_run_makes_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "--", sys.executable, "-c", "x = bytearray(50 << 20)"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory["dry_run"]["ending"] == "finished" and memory["fits"] in (True, None)


def test_a_program_that_fails_is_fatal_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import no_such_module_anywhere"
    assert main(["check", "--json", "--", sys.executable, "-c", code]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["memory"] is None
    assert "dependency-missing" in {f["id"] for f in document["findings"] if f["level"] == "fatal"}


def test_an_npz_is_answered_in_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np = pytest.importorskip("numpy")
    np.savez_compressed(place / "d.npz", a=np.zeros(1 << 20))
    assert main(["check", "d.npz"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("d.npz: compressed") and re.search(r": 8(\.\d)? MiB in memory", line)
    assert main(["check", "--json", "d.npz"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["is_loaded"] and not file["is_mappable"] and file["memory_bytes"] == 8 << 20


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing-here.npz"], "nothing-here.npz"),
        (["--what-if", "--batch-size 64"], "--what-if needs a dry run"),
        (["--", "no-such-command-anywhere"], "no-such-command-anywhere"),
        (["--steps", "0", "--", "true"], "--steps"),
    ],
)
def test_wrong_input_is_a_sentence_and_status_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    caught = capsys.readouterr()
    assert expected in caught.err and "Traceback" not in caught.err
