"""Text with anything in it is printed in one way, which no terminal obeys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.os_text import is_printable, printable, printable_line


@given(st.text(st.characters()))
def test_any_text_is_one_printable_line_of_the_same_length(text: str) -> None:
    assert is_printable(printable(text)) and len(printable(text)) == len(text)
    assert is_printable(printable_line(text)) and "  " not in printable_line(text)
    assert printable(printable(text)) == printable(text)


def test_spaces_stay_spaces_and_what_is_unseen_is_marked() -> None:
    assert printable("a\tb\nc\u3000d\x85e") == "a b c d e"
    assert printable("a\x1b[2Jb\u202ec\ud800\u200b\0") == "a?[2Jb?c???"
    assert printable_line(" train.py\n\t --é  训练 ") == "train.py --é 训练"
