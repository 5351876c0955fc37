"""Fixes that follow from the words of an exception: complete, found, and filled in."""

from __future__ import annotations

import pytest

from rerail.catalogue import Fix, load_catalogue
from rerail.catalogue.message_fixes import checked_fixes
from rerail.catalogue.templates import gaps
from rerail.diagnosis.fitting import fitted
from rerail.errors import FaultyCause
from rerail.platform.patterns import linear

CATALOGUE = load_catalogue()
# What a title may take from the facts of every run; all else comes from its own pattern.
OF_THE_RUN = {"where", "python", "script", "file_in_hand"}
FIX = {
    "name": "one",
    "pattern": "no (?P<thing>bread|milk)",
    "title": "Buy {thing}[ at {where}]",
    "safety": "safe",
    "matches": ["there is no milk"],
    "near_misses": ["there is milk"],
}


@pytest.mark.parametrize("fix", CATALOGUE.fixes, ids=lambda fix: fix.name)
def test_a_title_needs_only_what_its_pattern_or_the_run_gives(fix: Fix) -> None:
    named = set(linear(fix.pattern).compile().groupindex)
    assert gaps(fix.title) <= named | OF_THE_RUN, "a gap that stays open"
    assert set(fix.causes) <= set(CATALOGUE.causes)


def test_names_are_used_once() -> None:
    names = [fix.name for fix in CATALOGUE.fixes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"matches": ["there is milk"]}, "does not match"),
        ({"near_misses": ["no bread"]}, "matches 'no bread'"),
        ({"near_misses": []}, "must not match"),
        ({"safety": "harmless"}, "safety"),
        ({"colour": "red"}, "a fix has"),
    ],
)
def test_a_faulty_fix_is_refused(wrong: dict[str, object], complaint: str) -> None:
    with pytest.raises(FaultyCause, match=complaint):
        checked_fixes({"fix": [{**FIX, **wrong}]}, "shop")


def remedies(cause: str, **facts: object) -> list[str]:
    words = {"where": "train.py:3 main()"}
    return [each.title for each in fitted(CATALOGUE[cause], facts, words, CATALOGUE.fixes).remedies]


def test_what_the_message_asks_for_comes_first() -> None:
    said = "AttributeError: module 'numpy' has no attribute 'float'."
    first, *others = remedies("api-changed", exception_text=said)
    assert "np.float64" in first and "train.py:3" in first
    assert others == remedies("api-changed")


def test_the_exception_that_led_to_another_is_asked_too() -> None:
    before = {"text": "KeyError: '031'"}
    titles = remedies("python-exception", exception_text="OwnError", exception_before=before)
    assert "'031'" in titles[0]


def test_a_fix_for_other_causes_is_not_offered() -> None:
    said = "PermissionError: [Errno 13] Permission denied: 'model.pkl'"
    assert "model.pkl" in remedies("permission-denied", exception_text=said)[0]
    assert remedies("gpu-oom", exception_text=said) == remedies("gpu-oom")


def test_words_of_the_message_stay_in_one_line_and_short() -> None:
    said = "KeyError: '" + "\x1b[31m" + "x" * 60 + "'"
    title = remedies("python-exception", exception_text=said)[0]
    assert title.isprintable() and len(title) < 300
