"""Probabilities in words: neither certainty nor nothing where it is neither."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.wording import percent, share_in_percent


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (1e-9, "below 0.01 %"),
        (1.0 - 1e-9, "above 99.99 %"),
        (0.62, "62 %"),
        (0.034, "3 %"),
        (0.0094, "0.9 %"),
        (0.97, "97 %"),
        (0.9712, "97 %"),
        (0.993, "99.3 %"),
        (0.9996, "99.96 %"),
    ],
)
def test_as_a_person_says_it(chance: float, words: str) -> None:
    assert percent(chance) == words


@pytest.mark.parametrize(
    ("chance", "words"), [(0.5, "50 %"), (0.948, "94.8 %"), (0.034, "3.4 %"), (0.9996, "99.96 %")]
)
def test_what_is_compared_with_a_threshold_has_a_decimal(chance: float, words: str) -> None:
    assert percent(chance, 1) == words


def test_a_measured_share_may_be_above_all_of_it() -> None:
    assert share_in_percent(2.304) == "230 %" and share_in_percent(0.0) == "0 %"
    assert share_in_percent(-0.0094, "+.1f") == "-0.9 %"


@given(st.floats(0.0, 1.0), st.integers(0, 2))
def test_it_is_never_rounded_to_certainty_and_never_in_powers_of_ten(
    chance: float, digits: int
) -> None:
    words = percent(chance, digits)
    assert re.fullmatch(r"(above |below )?\d+(\.\d+)? %", words)
    if 0.0 < chance < 1.0:
        assert words not in ("0 %", "100 %", "0.0 %", "100.0 %", "0.00 %", "100.00 %")
