from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
from report_runs import write_run

from rerail.cli import main


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / ".rerail"))
    return tmp_path / ".rerail"


def test_report_writes_a_page_named_after_the_run(home, capsys):
    folder = write_run(home)
    assert main(["report", "last"]) == 0
    path = Path(f"rerail-report-{folder.id}.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    said = capsys.readouterr().out
    assert str(path) in said and folder.id in said and len(said.splitlines()[0]) <= 100


def test_report_as_markdown_on_standard_output(home, capsys):
    write_run(home)
    assert main(["report", "--md", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("# A native library crashed")


def test_report_as_json_prints_one_document(home, capsys):
    folder = write_run(home)
    assert main(["report", folder.id[:-1], "-o", "page.html", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["run"] == folder.id and document["file"] == "page.html"
    assert document["bytes"] == Path("page.html").stat().st_size


def test_report_of_a_folder_from_elsewhere(home, tmp_path, capsys):
    folder = write_run(home)
    moved = folder.path.rename(tmp_path / "copied")
    assert main(["report", str(moved), "-o", "x.html"]) == 0
    assert Path("x.html").exists()


def test_report_opens_the_browser_when_asked(home, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    write_run(home)
    assert main(["report", "--open", "-o", "x.html"]) == 0
    assert opened == [Path("x.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nonsense"], "nonsense"),
        (["report", "-o", "no/such/folder/x.html"], "cannot write"),
        (["report", "-o", "-", "--json"], "-o -"),
        (["pack", "-o", "no/such/folder/x.zip"], "cannot write"),
        (["pack", "nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(home, capsys, arguments, words):
    write_run(home)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


def test_damaged_folders_are_a_sentence_too(home, capsys):
    folder = write_run(home)
    (folder.path / "run.json").write_text('{"schema": 99}')
    assert main(["report", folder.id]) == 2
    said = capsys.readouterr().err
    assert "99" in said and "Traceback" not in said
