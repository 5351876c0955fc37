"""What a person sees while a fix is verified."""

from __future__ import annotations

from rerail.experiments.trials.live_view import Lines, wrapped
from rerail.experiments.verification.view import RunNow, proof_lines, run_lines


def test_how_far_a_run_is_and_what_its_outcomes_mean() -> None:
    lines = run_lines("Does it still fail with GOOD=1?", 340, 1200, "steps", pace=20.0)
    assert "step 340 of about 1,200, about 43 s left" in lines[1]
    lines += proof_lines(luck=0.9999999, confidence=0.95, used=180.0, budget=3600.0)
    text = " ".join(lines)
    assert "A crash refutes the fix" in text and "proven to 95 %" in text
    assert "above 99.99 %" in text and "e+" not in text
    assert "3 min of at most 60 min used" in text


def test_nothing_is_wider_than_the_screen() -> None:
    question = f"Does it still fail with {' and '.join(f'VARIABLE_{n}=1' for n in range(12))}?"
    lines = run_lines(question, 3, None, "seconds", None)
    assert max(map(len, wrapped(lines, 60))) <= 60


def test_without_a_screen_there_is_one_line_a_minute() -> None:
    written: list[str] = []
    clock = [0.0]
    lines = Lines(written.append, clock=lambda: clock[0])
    for second in range(0, 200, 10):
        clock[0] = second
        lines.moved(RunNow(["Does it?", f"  {second} s"]))
    assert written == ["Does it?; 60 s", "Does it?; 120 s", "Does it?; 180 s"]
