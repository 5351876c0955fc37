"""Logs of any size: what matters is kept, with true line numbers, in bounded memory."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.errors import UnreadableInput
from rerail.evidence.text import scan
from rerail.evidence.text.scan import Excerpt, excerpt_of, read_excerpt

WORDS = ["cuda out of memory", "segmentation fault", "loss scale"]


def excerpt(raw: bytes) -> Excerpt:
    return excerpt_of(io.BytesIO(raw), "a log", WORDS)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a few kilobytes as a large file, so that edges are met often."""
    for name, value in [
        ("WHOLE_BYTES", 2000), ("HEAD_BYTES", 300), ("TAIL_BYTES", 500), ("BLOCK_BYTES", 700),
        ("BEFORE_BYTES", 120), ("AFTER_BYTES", 200), ("LATER_BYTES", 60), ("CHATTER", 5),
    ]:  # fmt: skip
        monkeypatch.setattr(scan, name, value)


def test_a_small_log_is_kept_whole() -> None:
    found = excerpt(b"one\ntwo\r\nthree")
    assert found.is_whole
    assert [number for number, _ in found.lines] == [1, 2, 3]


def test_other_encodings_are_read() -> None:
    assert excerpt("Läuft\n".encode("utf-16")).lines[0][1].strip("\ufeff") == "Läuft"
    assert excerpt(b"L\xe4uft\n").lines == [(1, "L�uft")]


@pytest.mark.parametrize(
    "raw", [b"", b"\n \n\t", b"\x00\x01\x02\x03" * 100, b"\x7fELF" + bytes(200)]
)
def test_what_is_no_log_is_refused_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(UnreadableInput) as refused:
        excerpt(raw)
    assert "a log" in refused.value.message and refused.value.help_text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="No such file"):
        read_excerpt(tmp_path / "missing.log", WORDS)


def test_one_endless_line_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "line"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
    with pytest.raises(UnreadableInput, match="line of more than"):
        read_excerpt(path, WORDS)


@pytest.mark.usefixtures("small_pieces")
def test_a_word_anywhere_is_found_with_its_line_number() -> None:
    for at in range(10, 990, 7):
        lines = [f"step {n} all is well here" for n in range(1, 1001)]
        lines[at - 1] = "RuntimeError: CUDA out  of memory".replace("  ", " ")
        found = excerpt("\n".join(lines).encode())
        assert not found.is_whole
        assert dict(found.lines)[at] == lines[at - 1]


@pytest.mark.usefixtures("small_pieces")
def test_chatter_does_not_drown_what_comes_once() -> None:
    lines = ["loss scale is 32768" for _ in range(3000)]
    lines[2000] = "Segmentation fault (core dumped)"
    found = excerpt("\n".join(lines).encode())
    assert dict(found.lines)[2001] == lines[2000]
    assert len(found.lines) < 400


@pytest.mark.usefixtures("small_pieces")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(50, 400))
def test_what_is_kept_stands_where_it_stood(seed: int, count: int) -> None:
    chooser = random.Random(seed)
    lines = [
        "".join(chooser.choices("abc é", k=chooser.randint(0, 60)))
        if chooser.random() < 0.97
        else "a loss scale of 2 and CUDA out of memory"
        for _ in range(count)
    ]
    raw = ("x\n" + "\n".join(lines)).encode()
    kept = excerpt(raw).lines
    originals = dict(enumerate(raw.decode().split("\n"), 1))
    # A stretch may begin or end inside a line, and there inside a character.
    assert all(text.strip("\ufffd") in originals[number] for number, text in kept)
    last = max(number for number, text in originals.items() if text)
    assert kept[0][0] == 1 and kept[-1][0] >= last


@given(st.lists(st.sampled_from(["ab", "abc", "bca", "c a", " ", "x", "AB", "c\na"]), max_size=60))
def test_chatter_is_passed_over_and_hides_no_other_word(pieces: list[str]) -> None:
    """As a search that is made anew, without the word, as soon as one is chatter."""
    block = "".join(pieces).encode()
    words = ["ab", "abc", "bca", "c a"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "CHATTER", 3)
        patch.setattr(scan, "COMPILED_AFTER", 4)
        found = [(start, end) for start, end, _ in scan._WordFinder(words).hits(block)]
    expected = []
    seen = dict.fromkeys(words, 0)
    at = 0
    text = block.decode().lower().replace("\n", " ")
    while at < len(text):
        here = [word for word in words if seen[word] < 3 and text.startswith(word, at)]
        if not here:
            at += 1
            continue
        seen[here[0]] += 1
        expected.append((at, at + len(here[0])))
        at += len(here[0])
    assert found == expected
