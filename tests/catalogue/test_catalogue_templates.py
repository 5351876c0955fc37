"""Sentences with gaps: what is filled, left out and refused."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail.catalogue import load_catalogue
from rerail.catalogue.templates import fill, gaps
from rerail.diagnosis.result import Diagnosis
from rerail.diagnosis.words import words_of
from rerail.records import Outcome


@pytest.mark.parametrize(
    ("template", "words", "said"),
    [
        ("{a} and {b}", {"a": "1", "b": "2"}, "1 and 2"),
        ("{a} and {b}", {"a": "1"}, None),
        ("{a}[ and {b}]", {"a": "1"}, "1"),
        ("{a}[ and {b}]", {"a": "1", "b": "2"}, "1 and 2"),
        ("run {script|train.py}", {}, "run train.py"),
        ("run {script|train.py}", {"script": "x.py"}, "run x.py"),
        ("a[ b[ {c}]]", {}, "a b"),
        ("{a}", {"a": "{b}"}, "{b}"),  # what a log said is never filled again
        ("plain", {}, "plain"),
    ],
)
def test_filling(template: str, words: dict[str, str], said: str | None) -> None:
    assert fill(template, words) == said


@given(
    st.dictionaries(st.sampled_from("abc"), st.text(max_size=9)), st.text("ab[]{}| x", max_size=30)
)
def test_no_template_and_no_word_breaks_it(words: dict[str, str], template: str) -> None:
    said = fill(template, words)
    assert said is None or isinstance(said, str)
    assert isinstance(gaps(template), set)


@pytest.mark.parametrize("cause", list(load_catalogue()), ids=lambda cause: cause.id)
def test_every_cause_has_a_headline_for_a_log_that_says_nothing_more(cause: object) -> None:
    words = words_of(Diagnosis(Outcome("exit", "it ended")))
    said = [fill(each, words) for each in cause.headline]  # type: ignore[attr-defined]
    assert said[-1] and "{" not in said[-1] and "[" not in said[-1]


def test_remedies_of_the_catalogue_have_no_gap_that_stays_open() -> None:
    for cause in load_catalogue():
        for remedy in cause.remedies:
            assert fill(remedy.title, {}) is not None, (cause.id, remedy.id)


def test_every_gap_names_something_that_is_found_out_somewhere() -> None:
    """A gap that nothing fills is a sentence that nobody will ever read."""
    source = Path(rerail.__file__).parent
    found = {
        each.value
        for path in (source / "evidence").rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    found |= {name for cause in load_catalogue() for s in cause.signatures for name in s.facts}
    words = ast.parse((source / "diagnosis" / "words.py").read_text())
    asked = {
        each.args[0].value
        for each in ast.walk(words)
        if isinstance(each, ast.Call)
        and ast.unparse(each.func) == "facts.get"
        and isinstance(each.args[0], ast.Constant)
    }
    assert asked - found == set(), "words.py asks for facts that nothing finds out"
    found |= {each.value for each in ast.walk(words) if isinstance(each, ast.Constant)}
    for cause in load_catalogue():
        templates = [*cause.headline, *(remedy.title for remedy in cause.remedies)]
        named = {name for each in templates for name in re.findall(r"\{(\w+)", each)}
        assert named - found == set(), cause.id


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: The server socket has failed to bind to [::]:29533 "
        "(errno: 98 - Address already in use).",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29533, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use",
        "ConnectionError: Tried to launch distributed communication on port `29533`, but another "
        "process is utilizing it.",
    ],
)
def test_the_port_that_is_taken_stands_in_the_remedy(said: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(said + "\n")
    best = rerail.explain(tmp_path / "train.log").causes[0]
    assert best.id == "port-in-use"
    assert any("grep 29533" in remedy.title for remedy in best.remedies)
