"""The line of a key is found in any TOML that is valid."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.study.lines import KeyLines

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

KEYS = st.sampled_from(["a", "b-c", "d_1", '"--lr"', "'x y'", '"q.r"'])
VALUES = st.sampled_from(
    [
        "1",
        '"text # no comment ["',
        "'literal ] {'",
        "[1, 2]",
        "[\n  1,\n  2, # a comment ]\n]",
        '"""\nkey = 1\n[table]\n"""',
        "'''\n[[x]]\n'''",
        "{ p = 1, q = [2] }",
        "true # [comment]",
    ]
)


def unquoted(key: str) -> str:
    return key.strip("\"'")


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[tuple[str | int, ...], int]]:
    """A text, and where each key of it was put."""
    lines: list[str] = []
    places: dict[tuple[str | int, ...], int] = {}

    def body(prefix: tuple[str | int, ...]) -> None:
        for key in draw(st.lists(KEYS, max_size=3, unique_by=unquoted)):
            lines.append("")  # noise: an empty line and a comment before every key
            lines.append("# " + draw(st.sampled_from(["z = 1", "[nothing]", "'''"])))
            places[(*prefix, unquoted(key))] = len(lines) + 1
            lines.extend(f"{key} = {draw(VALUES)}".split("\n"))

    body(())
    for name in draw(st.lists(st.sampled_from(["t1", "t2", "t3"]), unique=True)):
        places[(name,)] = len(lines) + 1
        lines.append(f"[{name}]")
        body((name,))
    for at in range(draw(st.integers(0, 3))):
        places[("cell", at)] = len(lines) + 1
        lines.append("[[cell]]")
        body(("cell", at))
    return "\n".join(lines) + "\n", places


@given(documents())
def test_every_key_has_its_line(
    document: tuple[str, dict[tuple[str | int, ...], int]],
) -> None:
    text, places = document
    tomllib.loads(text)
    found = KeyLines(text)
    assert {path: found.line_of(path) for path in places} == places


@given(st.text())
def test_any_text_gives_some_line(text: str) -> None:
    assert KeyLines(text).line_of(("axes", "lr")) >= 1


def test_a_key_that_is_not_there_has_the_line_of_its_table() -> None:
    found = KeyLines("a = 1\n\n[limits]\njobs = 2\n")
    assert found.line_of(("limits", "cores")) == 3
    assert found.line_of(("nowhere",)) == 1
