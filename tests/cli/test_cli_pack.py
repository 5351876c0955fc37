from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
from report_runs import write_run

from rerail.cli import main

SECRET = "hunter2-and-more"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / ".rerail"))
    return write_run(
        tmp_path / ".rerail",
        command=["python", "train.py", "--db-password", SECRET],
        output=f"connecting with {SECRET}\n".encode(),
    )


def test_pack_writes_a_zip_and_says_what_is_in_it(folder, capsys):
    assert main(["pack"]) == 0
    path = Path(f"rerail-{folder.id}.zip")
    with zipfile.ZipFile(path) as archive:
        assert "report.html" in archive.namelist()
        assert SECRET not in archive.read("output.txt").decode()
        assert "[secret-1]" in archive.read("reproduce.sh").decode()
    said = capsys.readouterr().out
    assert "SUMMARY.md" in said and str(path) in said and SECRET not in said


def test_a_dry_run_writes_nothing_and_tells_kinds_and_counts_but_no_value(folder, capsys):
    assert main(["pack", "--dry-run"]) == 0
    assert not list(Path().glob("*.zip"))
    said = capsys.readouterr().out
    assert "value of a secret name" in said and "place" in said and SECRET not in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_pack_as_json(folder, capsys):
    assert main(["pack", "--dry-run", "--json"]) == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["file"] is None and document["run"] == folder.id
    assert "report.html" in [file["name"] for file in document["files"]]
    assert document["masked"]["value of a secret name"] >= 1 and SECRET not in text
