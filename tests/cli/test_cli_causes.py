"""`rerail causes`: the catalogue on the terminal."""

from __future__ import annotations

import json

import pytest

from rerail import cli
from rerail.catalogue import load_catalogue


def test_the_list_names_every_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["causes"]) == 0
    out = capsys.readouterr().out
    assert all(cause.id in out for cause in load_catalogue())
    assert all(len(line) <= 80 for line in out.splitlines())


def test_one_cause_with_its_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["causes", "openmp-duplicate-runtime"]) == 0
    out = capsys.readouterr().out
    assert "hides it, does not cure it" in out and "KMP_DUPLICATE_LIB_OK=TRUE" in out
    assert out.index("one-openmp-runtime") < out.index("KMP_DUPLICATE_LIB_OK=TRUE")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["causes", "--json"])
    everything = json.loads(capsys.readouterr().out)
    assert len(everything["causes"]) == len(load_catalogue())
    cli.main(["causes", "host-oom", "--json"])
    assert json.loads(capsys.readouterr().out)["id"] == "host-oom"


def test_a_misspelt_id_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["causes", "host-om"]) == 2
    assert "Did you mean host-oom?" in capsys.readouterr().err


def test_a_word_finds_all_causes_that_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["causes", "oom"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["gpu-oom", "host-oom"]
    assert cli.main(["causes", "memory"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "host-memory-leak" in {line.split()[0] for line in lines}
    assert all(len(line) <= 80 for line in lines)


def test_several_words_must_all_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["causes", "GPU mem", "--json"]) == 0
    found = {cause["id"] for cause in json.loads(capsys.readouterr().out)["causes"]}
    assert "gpu-oom" in found and "host-oom" not in found
