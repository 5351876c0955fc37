"""What a person sees while an investigation works, of real trials."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rerail.experiments import IsolateOptions, Lines, investigate
from rerail.experiments.isolation.trial_view import question_of
from rerail.experiments.planner.observation import Plan
from rerail.experiments.trials import judge
from rerail.experiments.trials.judge import Tried
from rerail.experiments.trials.live_view import (
    LINE_SECONDS,
    WIDTH,
    Silent,
    Standing,
    how_far,
)
from rerail.experiments.trials.trial_driver import UnderWay
from rerail.store import Store

DIES = str(Path(__file__).parent.parent / "programs" / "isolate_dies.py")


class Viewer(Silent):
    def __init__(self) -> None:
        self.blocks: list[list[str]] = []
        self.asked: list[str] = []

    def said(self, text: str) -> None:
        self.asked.append(text.partition(": ")[2])

    def moved(self, standing: Standing) -> None:
        self.blocks.append(list(standing.block(WIDTH)))


@pytest.mark.thorough
@pytest.mark.parametrize("jobs", [1, 2])
def test_each_trial_says_what_it_asks_and_what_its_outcomes_mean(tmp_path: Path, jobs: int) -> None:
    if jobs > len(os.sched_getaffinity(0)):
        pytest.skip("one processor")
    viewer = Viewer()
    document = investigate(
        [sys.executable, DIES],
        ["--mode good", "--colour blue"],
        Store(tmp_path / "home"),
        IsolateOptions(max_trials=40, jobs=jobs, may_write=True),
        viewer,
    )
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]
    assert viewer.asked[0] == "does it fail without any change?"
    alone = [
        text for text in viewer.asked if text.startswith("does it still fail with --mode good")
    ]
    assert alone
    for text in alone:
        assert " If this trial fails, " in text and " If it is clean until " in text
    lines = [line for drawn in viewer.blocks for line in drawn]
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("What may be true") for line in lines)
    assert any("━" in line and " alone removes it" in line for line in lines)
    drawn = [" ".join(" ".join(block).split()) for block in viewer.blocks]
    assert all("Ctrl-C keeps everything." in text for text in drawn)


def test_without_a_screen_there_is_at_most_one_line_a_minute(tmp_path: Path) -> None:
    """By a clock of its own, on which every look takes twenty seconds."""
    written: list[str] = []
    clock = [0.0]
    looks = 0

    class Watched(Lines):
        def moved(self, standing: Standing) -> None:
            nonlocal looks
            looks += 1
            clock[0] += LINE_SECONDS / 3
            super().moved(standing)

    lines = Watched(written.append, clock=lambda: clock[0])
    investigate(
        [sys.executable, "-c", "import time; time.sleep(2)"],
        ["OMP_NUM_THREADS=1"],
        Store(tmp_path / "home"),
        IsolateOptions(max_trials=1, may_write=True),
        lines,
    )
    between = [text for text in written if not text.startswith("trial ")]
    assert 1 <= len(between) <= looks // 3
    assert all("left" in text for text in between)


@pytest.mark.parametrize(
    ("names", "reason", "asked"),
    [
        ((), "", "does it fail without any change?"),
        (("a",), "", "does it still fail with a?"),
        (("a", "b"), "", "does it still fail with a and b?"),
        (("a",), "whether it only comes later with it", "does it only come later with a?"),
        (tuple("abcdefgh"), "", "does it still fail with all 8 changes?"),
        (tuple("abcdefg"), "", "does it still fail with all changes but h?"),
    ],
)
def test_the_question(names: tuple[str, ...], reason: str, asked: str) -> None:
    assert question_of(Plan(names, 10.0, reason), list("abcdefgh")) == asked


def test_how_far_it_is() -> None:
    assert how_far(340, 1200, "steps") == "step 340 of about 1,200"
    assert how_far(0, 1200, "batches") == "starting, about 1,200 batches to run"
    assert how_far(34.2, None, "seconds") == "34 s"


@pytest.mark.parametrize("lost", [0, 1])
def test_a_command_that_never_failed_stops_after_three_runs_unless_told_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """A run without a usable record is none of the three; here, the test says which ones are."""
    judged = iter(range(99))

    def judge_ended(each: UnderWay, *rest: Any) -> Tried:
        trial = as_it_is(each, *rest).trial
        is_lost = next(judged) < lost
        return Tried(replace(trial, outcome="lost" if is_lost else "finished", counts=not is_lost))

    as_it_is = judge.judge_ended
    monkeypatch.setattr(judge, "judge_ended", judge_ended)
    heard: list[str] = []
    questions: list[str] = []

    class Asked(Viewer):
        def said(self, text: str) -> None:
            heard.append(text)

        def may_go_on(self, question: str) -> bool:
            questions.append(question)
            return False

    def ask(**options: object) -> int:
        document = investigate(
            [sys.executable, "-c", "pass"],
            ["OMP_NUM_THREADS=1"],
            Store(tmp_path / "home"),
            IsolateOptions(may_write=True, **options),  # type: ignore[arg-type]
            Asked(),
        )
        assert document["status"] == "not-reproduced"
        return len(document["trials"])

    assert ask() == lost + 3 and len(questions) == 1
    assert "did not fail in 3 runs" in heard[-1] and "63 % of the runs" in heard[-1]
    # Asked again, three more are run before the next question; told beforehand, none is asked.
    assert ask() == lost + 6 and len(questions) == 2
    assert ask(goes_on_unasked=True, max_trials=5) == lost + 11 and len(questions) == 2
