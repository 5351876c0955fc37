"""Sentences with gaps: what is filled, left out and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
