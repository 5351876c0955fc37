"""Every pattern of the house, against strings made to hurt it.

A pattern that RE2 matches is linear by construction: it is enough that RE2 takes it. A pattern of
Python's own engine has to get through strings that nearly match it within a second; a quadratic one
takes several there, an exponential one never ends, a linear one a few milliseconds.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import rerail
from adversarial import attacks
from rerail.catalogue import load_catalogue
from rerail.catalogue.literals import spaced
from rerail.platform.patterns import LinearPattern, LinearSet, ShortPattern, linear, short

PACKAGE = Path(rerail.__file__).parent
LENGTH = 20_000
SECONDS = 1.0
CALLS = ("compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split")


class TooSlow(Exception):
    pass


def house_patterns() -> dict[str, Any]:
    """Every pattern by the place where it stands."""
    found: dict[str, Any] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if "stub" in place.parts or place.name == "__main__.py":
            continue
        for name, value in list(names_of(place).items()):
            for pattern in patterns_in(value):
                found[f"{place} {name} {pattern.pattern[:40]!r}"] = pattern
        for line, text in literals_in(path):
            found[f"{place}:{line}"] = re.compile(text)
    for cause in load_catalogue():
        for signature in cause.signatures:
            for key in ("pattern", "unless", "unless_through", "but_not"):
                if text := getattr(signature, key):
                    found[f"{cause.id} {signature.name} {key}"] = linear(spaced(text), re.M)
    return found


def names_of(place: Path) -> dict[str, Any]:
    """What a module defines; of one that needs a tool which is not installed, nothing."""
    try:
        return vars(importlib.import_module(".".join(["rerail", *place.with_suffix("").parts])))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rerail"):
            raise
        return {}


def patterns_in(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, (re.Pattern, LinearPattern, ShortPattern)):
        if isinstance(value.pattern, str):
            yield value
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from patterns_in(inner, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for inner in value.values():
            yield from patterns_in(inner, depth + 1)
    elif depth < 4 and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from patterns_in(getattr(value, field.name, None), depth + 1)


def literals_in(path: Path) -> Iterator[tuple[int, str]]:
    """Patterns that stand in a call of the re module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in CALLS
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield node.lineno, node.args[0].value


PATTERNS = house_patterns()
BACKTRACKING = {name: p for name, p in PATTERNS.items() if not isinstance(p, LinearPattern)}


def test_the_patterns_were_found() -> None:
    assert len(PATTERNS) > 700 and any(isinstance(p, LinearPattern) for p in PATTERNS.values())


def test_re2_takes_every_pattern_that_is_called_linear() -> None:
    pytest.importorskip("re2")
    compiled = [p.compile() for p in PATTERNS.values() if isinstance(p, LinearPattern)]
    assert not [p for p in compiled if isinstance(p, re.Pattern)]


@pytest.mark.thorough
def test_no_pattern_of_pythons_engine_can_be_made_slow() -> None:
    slow = [name for name, pattern in BACKTRACKING.items() if is_slow(pattern)]
    assert slow == []


def is_slow(pattern: Any) -> bool:
    length = min(getattr(pattern, "most", LENGTH), LENGTH)

    def over(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, over)
    try:
        for text in attacks(pattern.pattern, length):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            pattern.search(text)
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(\w+\s*)*:", r"\w+\w+\d!", r"(?:a|a)*b"])
def test_the_attack_finds_patterns_that_can_be_made_slow(pattern: str) -> None:
    assert is_slow(re.compile(pattern))


def test_what_re2_cannot_match_is_refused_with_its_reason() -> None:
    pytest.importorskip("re2")
    with pytest.raises(re.error, match="linear time"):
        linear(r"a(?=b)").search("ab")


def test_a_linear_pattern_speaks_as_pythons_do() -> None:
    pattern = linear(r"(?P<key>\w+)=(?P<value>\S+)", re.IGNORECASE)
    text = "lr=0.1 é bs=\udc808"  # a byte that is not UTF-8 must not make it fail
    found = pattern.search(text)
    assert found is not None and found.groupdict() == {"key": "lr", "value": "0.1"}
    assert [one.start() for one in pattern.finditer(text)] == [0, 9]
    assert pattern.sub("X", text) == "X é X"
    assert pattern.fullmatch("lr") is None and pattern.match(" lr=1") is None


def test_a_set_names_every_pattern_that_matches() -> None:
    patterns = [linear("^b"), linear("A", re.IGNORECASE), linear("a[^b]{0,3}c"), linear("é")]
    for text in ("ab", "bxA", "axxxc", "é \udc80", ""):
        possible = LinearSet(patterns).possible(text)
        assert {at for at, one in enumerate(patterns) if one.search(text)} <= set(possible)
        assert list(possible) == sorted(possible)


def test_a_set_names_only_what_can_match() -> None:
    pytest.importorskip("re2")
    several = LinearSet([linear("a"), linear("b"), linear("a[^b]{0,3}c")])
    assert several.possible("xa") == [0]
    assert several.possible("axxxxxxxc") == [0, 2]  # any number counts
    assert several.possible("x") == []


def test_a_short_pattern_sees_the_beginning_only() -> None:
    assert short("b", 3).search("aaab") is None
    assert short("b", 4).search("aaab") is not None


if __name__ == "__main__":  # which ones are slow, to mend them
    sys.exit("\n".join(name for name, pattern in BACKTRACKING.items() if is_slow(pattern)))
