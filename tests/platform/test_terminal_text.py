"""Escape sequences of terminals are taken out, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.terminal_text import ESCAPES_IN_BYTES, last_drawn, without_escapes


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38:2:255:0:0mtrue colour", "true colour"),
        ("\x1b[?25l\x1b[2Khidden cursor", "hidden cursor"),
        ("\x1b[>4;2mkeys of xterm", "keys of xterm"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bMup", "up"),
        ("plain", "plain"),
        ("\x1b[", "\x1b["),
    ],
)
def test_sequences_of_every_kind(printed: str, seen: str) -> None:
    assert without_escapes(printed) == seen
    assert ESCAPES_IN_BYTES.sub(b"", printed.encode()) == seen.encode()


def test_a_line_is_what_it_showed_last() -> None:
    assert last_drawn(" 1%\r\x1b[32m 2%\x1b[0m\r") == " 2%"
    assert last_drawn("\r\r") == ""


@given(st.text("\x1b[]0;?:m\x07\\K a", max_size=200))
def test_any_text_is_read(printed: str) -> None:
    left = without_escapes(printed)
    assert len(left) <= len(printed)
    assert "\x1b" in printed or left == printed


def test_a_long_text_of_half_sequences_is_read_in_one_pass() -> None:
    for piece in ("\x1b]0", "\x1b[0;", "\x1b[1 ", "\x1b]"):
        assert without_escapes(piece * 500_000) is not None
