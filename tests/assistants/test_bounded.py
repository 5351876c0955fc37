"""Whatever a run holds, what a model is given has a bound."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rerail.assistants.bounded import bounded

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=80,
)


@given(PLAIN, st.integers(200, 5000))
def test_it_is_bounded_and_small_things_stay(value: Any, most: int) -> None:
    found = bounded(value, most)
    assert len(json.dumps(found).encode()) <= most
    if len(json.dumps(value).encode()) <= min(most, 300):
        assert found == value


def test_both_ends_of_a_list_stay() -> None:
    found = bounded([f"line {n} {'x' * 200}" for n in range(10_000)], 20_000)
    assert found[0].startswith("line 0") and found[-1].startswith("line 9999")
    assert any("left out" in item for item in found)
