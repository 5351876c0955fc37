"""Probabilities in words: neither certainty nor nothing where it is neither."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.wording import chance_in_words


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (1e-9, "below 0.01 %"),
        (1.0 - 1e-9, "above 99.99 %"),
        (0.62, "62 %"),
        (0.034, "3.4 %"),
        (0.993, "99.3 %"),
        (0.9996, "99.96 %"),
    ],
)
def test_as_a_person_says_it(chance: float, words: str) -> None:
    assert chance_in_words(chance) == words


@given(st.floats(0.0, 1.0))
def test_it_is_never_rounded_to_certainty_and_never_in_powers_of_ten(chance: float) -> None:
    words = chance_in_words(chance)
    assert re.fullmatch(r"(above |below )?\d+(\.\d+)? %", words)
    if 0.0 < chance < 1.0:
        assert words not in ("0 %", "100 %", "0.0 %", "100.0 %", "0.00 %", "100.00 %")
