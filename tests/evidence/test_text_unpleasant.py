"""Logs that could make rerail slow, and answers whose time is over."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.catalogue import load_catalogue
from rerail.diagnosis import diagnose, explain_logs
from rerail.evidence import collect_logs
from rerail.evidence.text import stretches as searched
from rerail.evidence.text.kernel_lines import find_kernel_lines
from rerail.evidence.text.lines import Line, to_lines
from rerail.evidence.text.logs import search_words
from rerail.evidence.text.memory import find_shortages
from rerail.evidence.text.native_stacks import find_native_stacks
from rerail.evidence.text.progress import ProgressPoint
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.tracebacks import find_tracebacks
from rerail.platform.deadline import Deadline

HEADER = "Traceback (most recent call last):\n"
FRAME = '  File "train.py", line {line}, in f\n    return f(x)\n'
SECONDS = 60.0  # a generous guard: each of these takes far less than a second


def explained(tmp_path: Path, text: str) -> str:
    log = tmp_path / "train.log"
    log.write_text(text, encoding="utf-8")
    return explain_logs([log], seconds=SECONDS).incomplete


@pytest.mark.parametrize(
    "text",
    [
        "import x" + "\n" * 40 + "bye\n",
        "import x\n" * 500 + "\n" * 2000 + "Segmentation fault\n",
        "config['a']\n" * 3000 + "KeyError: 'b'\n",
        "loss " + " " * 20_000 + "x\n",
        "step " + "1" * 20_000 + "\n",
        "A" * 20_000 + "\n" + "sA" * 10_000 + "]\n",
        "1" * 19_000 + ": \n",
        'File "' + "a, line " * 2000 + "\n",
        "[rank1" * 3000 + "\n",
        "#" + "1" * 19_000 + " 0x7f in f () from /lib/libc.so.6\n",
        "[Rank 1] WorkNCCL(SeqNum=" + "1" * 19_000 + ", OpType=ALLREDUCE\n",
        "Root Cause (first observed failure)\n  rank : " + "1" * 19_000 + "\n",
        "Killed\n" * 38_000 + "step 1 loss nan\n" * 2000,
        ("mem " + "rss 1 MB " * 40 + "\n") * 2000,
    ],
)
def test_ordinary_text_in_an_unlucky_order_is_read_at_once(tmp_path: Path, text: str) -> None:
    assert explained(tmp_path, text) == ""


def test_a_traceback_of_any_depth_is_read_at_once_and_folded(tmp_path: Path) -> None:
    frames = "".join(FRAME.format(line=n % 5000 + 1) for n in range(100_000))
    assert explained(tmp_path, HEADER + frames + "ValueError: deep\n") == ""


def test_repeated_frames_are_folded_and_both_ends_are_kept() -> None:
    text = HEADER + FRAME.format(line=1) + FRAME.format(line=7) * 900
    text += "".join(FRAME.format(line=n) for n in range(1000, 3000)) + "RecursionError: x"
    (found,) = find_tracebacks(list(to_lines(enumerate(text.split("\n"), 1))))
    lines = [line for _, line, _ in found.frames]
    assert lines[:5] == [1, 7, 7, 7, 1000] and lines[-1] == 2999
    assert len(lines) + found.folded_count == 1 + 900 + 2000
    assert len(lines) == len(found.sources) < 900
    assert found.raised_at == "train.py:2999 in f: return f(x)"


def test_an_answer_whose_time_is_over_says_what_it_left_out(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    diagnosis = diagnose(collect_logs([log], Deadline(0.0)))
    assert diagnosis.outcome.kind == "exit"  # the end of the log is read first
    assert "not looked at" in diagnosis.incomplete
    assert diagnosis.to_json()["incomplete"] == diagnosis.incomplete


def test_a_large_log_whose_time_is_over_still_shows_its_end(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = 200_000
    log.write_text("step 1 loss 2.0 of an ordinary line\n" * lines + "ValueError: the end\n")
    evidence = collect_logs([log], Deadline(0.0))
    assert "the middle of train.log" in evidence.incomplete
    (raised,) = [o for o in evidence.observations if o.kind == "traceback"]
    assert raised.source == f"output:{lines + 1}"


def clean_lines(text: str) -> list[Line]:
    return list(to_lines(enumerate(text.split("\n"), 1)))


def signatures_on_lines() -> list[searched.Signature]:
    return [one for cause in load_catalogue() for one in cause.signatures if one.where == "line"]


def test_of_a_word_on_hundreds_of_lines_the_first_and_the_last_are_tried() -> None:
    text = searched.Text(clean_lines("\n".join(["no memory of it"] * 400)))
    tried = [text.line_at(at).number for at, _ in text.places("memory", len(text.text))]
    assert tried == [*range(1, 81), *range(321, 401)]
    in_part = [text.line_at(at).number for at, _ in text.places("memory", 160)]
    assert in_part == [1, 2, *range(394, 401)]  # a quarter at the start, the others at the end
    assert len(text.places("memory", 0)) <= 1


def test_a_log_with_all_words_of_the_catalogue_keeps_the_budget() -> None:
    words = search_words(load_catalogue())
    text = searched.Text(clean_lines("\n".join(words * 12)))
    signatures = signatures_on_lines()
    found = searched.find_places(signatures, text)
    stretches = [stretch for one in found.values() for stretch in one.stretches()]
    assert sum(stretch.cost for stretch in stretches) <= searched.BUDGET_CHARS
    every = [one for one in signatures if any(word in text.lower for word in one.literals)]
    assert all(id(one) in found and found[id(one)].stretches() for one in every)


def test_where_a_share_is_too_small_the_first_and_the_last_stretches_are_tried() -> None:
    stretches = [searched.Stretch(at * 1000, at * 1000 + 100) for at in range(100)]
    every = searched.Places([[(one.start, one) for one in stretches]], are_wrapped=False)
    kept = every.within(10 * stretches[0].cost).stretches()
    assert len(kept) == 10
    assert kept[0] == stretches[0] and kept[-8:] == stretches[-8:]
    assert every.within(1 << 30) is every


def test_of_what_repeats_only_as_much_is_read_as_is_kept() -> None:
    dumps = "Thread 0x7f (most recent call first):\n" * 30
    dumps += 'Thread 0x7f (most recent call first):\n  File "x", line 1 in f\n' * 30
    stacks = find_native_stacks(clean_lines(dumps))
    assert [stack.first.number for stack in stacks] == [31 + 2 * at for at in range(20)]
    xids = "\n".join(f"NVRM: Xid (PCI:0): {n}, x" for n in range(50))
    assert [one.fields["xid"] for one in find_kernel_lines(clean_lines(xids))] == [*range(30, 50)]
    shortages = find_shortages(clean_lines("CUDA out of memory\n" * 9))
    assert [one.line.number for one in shortages] == [4, 5, 6, 7, 8, 9]


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 3]), st.sampled_from([None, 0.5, math.nan])),
        max_size=12,
    )
)
def test_progress_counts_when_two_new_points_follow(said: list[tuple[int, float | None]]) -> None:
    points = [
        ProgressPoint(Line(2 * at, ""), step=step, loss=loss)
        for at, (step, loss) in enumerate(said)
    ]
    resumption = Resumption(points, [])
    for at in range(len(points) + 1):
        new = {
            (step, loss)
            for step, loss in said[at:]
            if (step or loss is not None)
            and not (loss and math.isnan(loss))
            and (step, loss) not in said[max(0, at - 3) : at]
        }
        assert resumption.after(2 * at - 1, is_fatal=True) == (len(new) >= 2)
