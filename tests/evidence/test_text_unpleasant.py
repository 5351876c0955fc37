"""Logs that could make rerail slow, and answers whose time is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.diagnosis import diagnose, explain_logs
from rerail.evidence import collect_logs
from rerail.evidence.text.lines import to_lines
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
