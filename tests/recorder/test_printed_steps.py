"""How many steps a training has done, by lines of which some were not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.printed_progress import MOST, Printed, read_line
from rerail.recorder.run.printed_steps import PrintedSteps


def count(*lines: str, follows: bool = True) -> PrintedSteps:
    steps = PrintedSteps()
    for line in lines:
        said = read_line(line)
        assert said is not None, line
        steps.take(said, follows=follows)
    return steps


def test_steps_that_go_on_over_the_epochs() -> None:
    lines = [f"epoch {n // 50} step {n} loss {1 / n:.3f}" for n in range(10, 201, 10)]
    steps = count(*lines)
    assert (steps.step, steps.steps, steps.every, steps.epoch) == (200, 200, 10, 4)
    assert steps.loss == pytest.approx(1 / 200, abs=1e-3)


def test_steps_that_begin_anew_with_each_epoch() -> None:
    steps = count(
        *(f"Epoch [{e}/3], Step [{s}/600]" for e in (1, 2, 3) for s in range(100, 601, 100))
    )
    assert (steps.step, steps.total, steps.steps, steps.every) == (600, 600, 1800, 100)


def test_epochs_between_two_looks_are_counted() -> None:
    lines = [f"Epoch [{e}/9], Step [{s}/600]" for e, s in [(1, 500), (2, 100), (5, 200), (6, 300)]]
    assert count(*lines, follows=False).steps == 5 * 600 + 300


def test_steps_that_begin_anew_without_a_word_on_epochs() -> None:
    lines = [f"batch {s} loss 0.5" for _ in range(3) for s in range(100)]
    steps = count(*lines)
    assert (steps.step, steps.steps, steps.every) == (99, 300, 1)


def test_one_line_for_each_epoch() -> None:
    lines = [
        line
        for e in (1, 2, 3)
        for line in (f"Epoch {e}/3", f"8/8 - 0s - 5ms/step - loss: 0.{9 - e}")
    ]
    steps = count(*lines)
    assert (steps.steps, steps.epoch, steps.loss, steps.every) == (24, 3, 0.6, 8)


def test_a_run_that_was_resumed_has_done_what_came_since() -> None:
    steps = count(*(f"step {n} loss 1.0" for n in range(5010, 5101, 10)))
    assert (steps.step, steps.steps) == (5100, 100)


def test_a_run_that_counts_from_zero() -> None:
    assert count(*(f"step {n} loss 1.0" for n in range(10))).steps == 10
    assert count(*(f"[{n}]\ttrain-rmse:0.3" for n in range(10))).steps == 10


def test_the_rank_that_lags_does_not_count_twice() -> None:
    lines = [f"step {n} loss 1" for at in range(1, 14) for n in (at, max(at - 1, 1))]
    steps = count(*lines)
    assert (steps.step, steps.steps) == (13, 13)


def test_words_go_before_bars_and_long_bars_before_short_ones() -> None:
    bar = " 10%|█  | {}/{} [00:12<00:20,  3.10it/s]"
    lines = [bar.format(n, 200) for n in (1, 2, 3)] + [bar.format(n, 25) for n in range(26)]
    assert (count(*lines).step, count(*lines).total) == (3, 200)
    assert count(*lines, "step 7 loss 0.5").step == 7


def test_an_evaluation_counts_nothing() -> None:
    bar = "Validation DataLoader 0:  50%|█  | 500/1000 [00:12<00:20,  3.10it/s]"
    steps = count("step 3 loss 0.5", "Epoch 2: val_loss=0.2", bar, "val loss 0.1")
    assert (steps.step, steps.loss, steps.phase) == (3, 0.5, "val")


def test_epochs_alone_are_no_steps() -> None:
    steps = count("Epoch 1/10", "Epoch 2/10")
    assert (steps.has_steps, steps.steps, steps.epoch, steps.epochs) == (False, 0, 2, 10)


COUNTS = st.one_of(st.none(), st.integers(0, MOST))
LINES = st.builds(
    Printed,
    step=COUNTS,
    total=COUNTS,
    epoch=st.one_of(st.none(), st.floats(0, 1e15)),
    loss=st.one_of(st.none(), st.floats()),
    phase=st.sampled_from([None, "train", "val"]),
    unit=st.sampled_from(["step", "bar"]),
)


@given(st.lists(st.tuples(LINES, st.booleans()), max_size=60))
def test_any_lines_are_counted_within_bounds(lines: list[tuple[Printed, bool]]) -> None:
    steps = PrintedSteps()
    for said, follows in lines:
        steps.take(said, follows=follows)
        assert 0 <= steps.steps <= MOST
        assert steps.every is None or 0 < steps.every <= MOST


@pytest.mark.thorough
@given(st.integers(1, 400), st.integers(1, 5), st.integers(1, 7), st.data())
def test_what_is_left_out_changes_no_count(
    per_epoch: int, epochs: int, every: int, data: st.DataObject
) -> None:
    """Each epoch's last step is printed and read; of the others any may be missed."""
    lines = [
        (e, s)
        for e in range(1, epochs + 1)
        for s in range(1, per_epoch + 1)
        if s % every == 0 or s == per_epoch
    ]
    steps = PrintedSteps()
    for e, s in lines:
        if s == per_epoch or data.draw(st.booleans()):
            said = Printed(step=s, total=per_epoch, epoch=float(e), unit="step")
            steps.take(said, follows=False)
    assert steps.steps == per_epoch * epochs
