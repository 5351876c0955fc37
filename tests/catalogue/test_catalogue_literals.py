"""The words that a text must contain for a pattern to match it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.catalogue.literals import required_literals, spaced


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"CUDA out of memory", {"cuda out of memory"}),
        (r"(?i)no space left|disk quota", {"no space left", "disk quota"}),
        (r"size mismatch for [\w.]+: copying", {"size mismatch for"}),
        (r"^Killed$", {"killed"}),
        (r"(?:Segmentation|bus) (?:fault|error)", {"fault", "error"}),
        (r"\d+", set()),
        (r"a?b?c?", set()),
        (r"(?:x|long word)", set()),
    ],
)
def test_what_a_pattern_demands(pattern: str, words: set[str]) -> None:
    assert required_literals(spaced(pattern)) == words


def test_a_space_matches_a_line_break_but_not_inside_a_class() -> None:
    assert re.search(spaced("out of memory"), "out of\nmemory")
    assert re.search(spaced("[ab ]c"), "\nc") is None
    assert spaced(r"a\ b") == r"a\ b"
    assert spaced("a ?b") == r"a\s?b"


word = st.text(alphabet="abcdeXYZ", min_size=1, max_size=6)


@given(st.lists(word, min_size=1, max_size=4), st.lists(word, min_size=1, max_size=4), st.data())
def test_the_promise_holds_for_any_alternatives(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    pattern = f"(?:{'|'.join(first)}) \\d*(?:{'|'.join(second)})x?"
    text = f"{data.draw(st.sampled_from(first))} 12{data.draw(st.sampled_from(second))}"
    assert re.search(spaced(pattern), text)
    literals = required_literals(spaced(pattern))
    assert not literals or any(literal in text.lower() for literal in literals)
