"""The patterns of causes and symptoms: lists of short alternatives, each with a line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail.catalogue import spaced
from rerail.catalogue.loader import cause_files, symptom_files
from rerail.catalogue.schema import complaints, with_whole_patterns
from rerail.platform.compiled_data import parse_toml
from rerail.platform.patterns import LinearPattern, linear

FILES = [*cause_files(), *symptom_files()]
# A longer pattern is a list; an alternative, in which nothing can be split, may be a bit longer.
LONGEST = 300
LONGEST_ALTERNATIVE = 400


def table_of(path: Path) -> dict[str, Any]:
    return parse_toml(path.read_text(encoding="utf-8"))


def signatures_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    return table.get("signature", table.get("wording", []))


def compiled(pattern: str) -> LinearPattern:
    return linear(spaced(pattern), re.MULTILINE)


def lacking(table: dict[str, Any]) -> list[str]:
    """The alternatives of a file that none of its lines matches."""
    found = []
    for signature in signatures_of(table):
        lines = [*table.get("matches", []), *signature.get("matches", [])]
        for alternative in signature.get("any", []):
            alone = signature.get("pattern", "{any}").replace("{any}", alternative)
            if not any(map(compiled(alone).search, lines)):
                found.append(f"{signature.get('name', signature.get('dialect'))}: {alternative}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_pattern_is_too_long_to_be_read(path: Path) -> None:
    for signature in signatures_of(table_of(path)):
        for key in ("pattern", "unless", "unless_through", "but_not"):
            if isinstance(text := signature.get(key, ""), str):
                assert len(text) <= LONGEST, f"{key} of {signature}: make it a list"
            else:
                assert max(map(len, text)) <= LONGEST_ALTERNATIVE
        assert all(len(each) <= LONGEST_ALTERNATIVE for each in signature.get("any", []))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_alternative_has_a_line(path: Path) -> None:
    assert lacking(table_of(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_signature_takes_its_own_lines(path: Path) -> None:
    """Also those that it refuses by `unless` would be no lines of its own."""
    for signature in signatures_of(table_of(path)):
        whole = with_whole_patterns(signature)
        refused = [compiled(whole[key]) for key in ("unless", "but_not") if whole.get(key)]
        for line in signature.get("matches", []):
            assert compiled(whole["pattern"]).search(line), line
            assert not any(pattern.search(line) for pattern in refused), line


def test_an_alternative_without_a_line_is_found() -> None:
    signature = {"name": "a", "any": ["lost", "gone"], "matches": ["the disk is lost"]}
    assert lacking({"signature": [signature]}) == ["a: gone"]


def test_alternatives_are_joined_where_the_pattern_says() -> None:
    signature = {"name": "a", "pattern": "disk (?:{any})", "any": ["lost", "gone"], "matches": []}
    assert with_whole_patterns(signature) == {"name": "a", "pattern": "disk (?:lost|gone)"}
    table = table_of(next(path for path in FILES if path.stem == "port-in-use"))
    for faulty in ({"any": ["x"], "pattern": "y"}, {"pattern": "{any}"}, {}):
        wrong = {**table, "signature": [{"name": "a", "weight": 1.0, **faulty}]}
        assert [each for each in complaints(wrong, "port-in-use") if "signature[0]" in each]


if __name__ == "__main__":  # the alternatives that still have none
    without = [f"{path.stem}: {each}" for path in FILES for each in lacking(table_of(path))]
    sys.exit("\n".join(without) or 0)
