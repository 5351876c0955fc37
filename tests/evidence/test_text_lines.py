"""Raw lines become clean ones that know who wrote them, when, and where they stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.evidence.text.lines import LONGEST_LINE, parse_stamp, to_lines


def cleaned(*raw: str) -> list[tuple[int, str, str]]:
    return [(line.number, line.stream, line.text) for line in to_lines(enumerate(raw, 1))]


@pytest.mark.parametrize(
    ("raw", "stream", "text"),
    [
        ("[rank3]: ValueError: x", "rank 3", "ValueError: x"),
        ("[rank3]:   File \"a.py\", line 1, in f", "rank 3", "  File \"a.py\", line 1, in f"),
        ("(RayTrainWorker pid=77, ip=10.0.0.1) ValueError: x", "pid 77", "ValueError: x"),
        ("(pid=57580) RuntimeError: NCCL error", "pid 57580", "RuntimeError: NCCL error"),
        ("[1,3]<stderr>:ValueError: x", "rank 3", "ValueError: x"),
        ("gpu004: Traceback (most recent call last):", "gpu004",
         "Traceback (most recent call last):"),
        ("trainer/0 [1]:[W socket.cpp:558] x", "rank 1", "[W socket.cpp:558] x"),
        ("2026-02-18T10:28:25.497Z stderr F boom", "", "boom"),
        ("worker-1  | boom", "", "boom"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07alert", "", "red alert"),
        ("E       RuntimeError: boom", "", "RuntimeError: boom"),
        ("plain text: nothing to take off", "", "plain text: nothing to take off"),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog", "rank 2",
         "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog"),
    ],
)  # fmt: skip
def test_prefixes_come_off_and_are_remembered(raw: str, stream: str, text: str) -> None:
    assert cleaned(raw) == [(1, stream, text)]


def test_redraws_and_what_is_printed_behind_a_bar_are_lines_of_one_number() -> None:
    bar = (
        "  0%| | 0/5 [00:00<?]\r 20%|# | 1/5 [00:01<00:04, 1.0it/s]"
        "Traceback (most recent call last):"
    )
    assert [(number, text) for number, _, text in cleaned(bar, "next")] == [
        (1, "  0%| | 0/5 [00:00<?]"),
        (1, " 20%|# | 1/5 [00:01<00:04, 1.0it/s]"),
        (1, "Traceback (most recent call last):"),
        (2, "next"),
    ]


def test_whatever_stands_behind_the_brackets_of_a_bar_is_another_line() -> None:
    bar = " 31%|###    | 331/1063 [01:06<03:59,  3.06it/s]"
    assert [text for *_, text in cleaned(f"{bar}Killed")] == [bar, "Killed"]
    with_loss = "  0%|     | 0/10 [00:00<?, ?it/s, loss=0.3]"
    shell = "zsh: bus error  python train.py"
    assert [text for *_, text in cleaned(f"{with_loss}{shell}")] == [with_loss, shell]


def test_a_stamp_is_read_whatever_its_form() -> None:
    forms = ["2026-02-18T10:28:25.5Z", "2026-02-18 10:28:25,500", "2026/02/18 10:28:25.500",
             "2026-02-18T11:28:25.500+0100"]  # fmt: skip
    assert {parse_stamp(form) for form in forms} == {1771410505.5}
    assert parse_stamp("2026-99-18 10:28:25") is None


def test_a_very_long_line_keeps_its_head_and_its_tail() -> None:
    [(_, _, text)] = cleaned("a" * 10**6 + "RuntimeError: the end")
    assert len(text) <= LONGEST_LINE + 5
    assert text.startswith("aaa") and text.endswith("RuntimeError: the end")


@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text_gives_clean_lines_in_order(raw: list[str]) -> None:
    lines = list(to_lines(enumerate(raw, 1)))
    assert [line.number for line in lines] == sorted(line.number for line in lines)
    assert all("\x00" not in line.text and "\x1b[" not in line.text for line in lines)
    assert {line.number for line in lines} == set(range(1, len(raw) + 1))
