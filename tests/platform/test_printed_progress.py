"""Lines of output as frameworks print them, and what each says of how far the training is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.printed_progress import LONGEST, MOST, SHAPES, Shape, read_line
from rerail.platform.terminal_text import without_escapes
from rerail.platform.wordings import FOLDER, source_table

WORDINGS = source_table(FOLDER / "printed_progress.toml")
Expected = tuple[int | None, int | None, float | None, float | None]

# line, (step, total, epoch, loss)
SAID: dict[str, Expected] = {
    # words
    "step 12/100": (12, 100, None, None),
    "step 12 loss 0.5": (12, None, None, 0.5),
    "Epoch 3/10": (None, None, 3, None),
    "iter 100: loss 2.31, time 200.12ms, mfu 3.50%": (100, None, None, 2.31),
    "step 250: train loss 2.1, val loss 2.2": (250, None, None, 2.1),
    "Epoch [3/10], Step [100/600], Loss: 0.43": (100, 600, 3, 0.43),
    "epoch 2 | step 300 | loss 1.25 | lr 1e-3": (300, None, 2, 1.25),
    '{"step": 300, "epoch": 2, "loss": 1.25}': (300, None, 2, 1.25),
    "[epoch 5/20][batch 30/300] loss 0.3": (30, 300, 5, 0.3),
    "Iteration 7, loss = 0.56123": (7, None, None, 0.56123),  # scikit-learn's networks
    "-- Epoch 4": (None, None, 4, None),
    "Norm: 1.20, NNZs: 5, Bias: 0.1, T: 300, Avg. loss: 0.523": (None, None, None, 0.523),
    "INFO:tensorflow:loss = 1.25, step = 100 (0.4 sec)": (100, None, None, 1.25),
    "completed step: 5, seconds: 1.2, TFLOP/s/device: 100.0, loss: 10.8": (5, None, None, 10.8),
    "step: 10  loss:  8.2345  grad_norm:  1.2  memory: 10.0GiB(12%)": (10, None, None, 8.2345),
    # Hugging Face
    "{'loss': 1.2, 'grad_norm': 3.1, 'learning_rate': 5e-05, 'epoch': 0.3}": (None, None, 0.3, 1.2),
    "{'loss': '1.2', 'epoch': '0.3'}": (None, None, 0.3, 1.2),
    "{'train_runtime': '1.9', 'train_loss': '3.894', 'epoch': '2'}": (None, None, 2, None),
    # bars
    " 37%|███▋      | 37/100 [00:12<00:20, 3.1it/s, loss=0.5]": (37, 100, None, 0.5),
    "Epoch 3:  45%|████▌     | 45/100 [00:12<00:20,  3.10it/s, v_num=0, train_loss=0.512]": (
        *(45, 100, 3),
        0.512,
    ),
    "Epoch 3/9 ━━━━━╸━━━━ 45/100 0:00:12 • 0:00:20 3.10it/s v_num: 0.000 train_loss: 0.5": (
        *(45, 100, 3),
        0.5,
    ),
    "37/100 [==========>...................] - ETA: 1s - loss: 0.43": (37, 100, None, 0.43),
    "\x1b[1m37/100\x1b[0m \x1b[32m━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m1s\x1b[0m 5ms/step, loss: 2.5": (
        *(37, 100, None),
        2.5,
    ),
    "8/8 - 1s - 5ms/step - loss: 0.4301 - val_loss: 0.5": (8, 8, None, 0.4301),
    "     37/Unknown 1s 5ms/step - loss: 0.43": (37, None, None, 0.43),
    # boosting; XGBoost and CatBoost count their rounds from 0
    "[12]\ttrain-rmse:0.31\teval-rmse:0.4": (13, None, None, 0.31),
    "[0]\ttrain-error:0.25": (1, None, None, 0.25),
    "[12]\teval-auc:0.91": (13, None, None, None),
    "[10]\ttraining's l2: 0.25\tvalid_1's l2: 0.3": (10, None, None, 0.25),
    "12:\tlearn: 0.5\ttotal: 3ms\tremaining: 5s": (13, None, None, 0.5),
    "12:\tlearn: 0.5\ttest: 0.6\tbest: 0.6 (12)\ttotal: 3ms\tremaining: 5s": (13, None, None, 0.5),
    # whole lines of one framework
    "2026-01-01 12:00:00 | INFO | train_inner | epoch 001:     50 / 1000 loss=9.1, ppl=550": (
        *(50, 1000, 1),
        9.1,
    ),
    " [2026-01-01 12:00:00] iteration      100/  500000 | consumed samples:        25600 |"
    " elapsed time per iteration (ms): 123.4 | global batch size:   256 | lm loss: 6.2E+00 |"
    " loss scale: 1.0 | number of skipped iterations:   0 |": (100, 500000, None, 6.2),
    "[01/01 12:00:00 d2.utils.events]:  eta: 0:10:00  iter: 19  total_loss: 1.2  loss_cls: 0.5": (
        *(19, None, None),
        1.2,
    ),
    "2026/01/01 12:00:00 - mmengine - INFO - Epoch(train) [1][10/234]  lr: 1.0e-02  loss: 2.1": (
        *(10, 234, 1),
        2.1,
    ),
    "mmengine - INFO - Iter(train) [   50/20000]  lr: 1e-2 loss: 2.1": (50, 20000, None, 2.1),
    "      3/100      0.95G      1.234      2.345      1.123         45        640: 50% ━━━━━━──── "
    "5/10 4.9it/s 1.0s<1.0s": (5, 10, 3, None),
    "Epoch: [0][  10/5005]\tTime  0.3 ( 0.5)\tLoss 6.9876e+00 (7.0e+00)": (10, 5005, 0, 6.9876),
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300039": (None, None, 1, 2.300039),  # samples
}


@pytest.mark.parametrize("text", SAID)
def test_a_line_says_how_far_it_is(text: str) -> None:
    said = read_line(without_escapes(text))
    assert said is not None
    assert (said.step, said.total, said.epoch, said.loss) == SAID[text]


@pytest.mark.parametrize(
    "text",
    [
        "Loading checkpoint shards:  50%|█████     | 1/2 [00:01<00:01,  1.0s/it]",
        "Map:  50%|█████     | 500/1000 [00:01<00:01, 500 examples/s]",
        "Downloading data: 45%|████ | 45M/100M [00:12<00:20, 3.10MB/s]",
        "steps per epoch = 46",
        "num_epochs: 3, max_steps: 100",
        "GET /step/12 200",
        "follow the guide step by step in 12 minutes",
        "RuntimeError: step 12 failed",
        "[12] something else",
        "12:30:00 started",
        "",
    ],
)
def test_other_lines_say_nothing(text: str) -> None:
    assert read_line(text) is None


def test_a_setting_on_the_line_does_not_hide_the_step() -> None:
    said = read_line("step 7 of 90, log every 10 steps")
    assert said is not None and (said.step, said.total) == (7, 90)


def test_an_evaluation_is_no_step_of_the_training() -> None:
    said = read_line("mmengine - INFO - Epoch(val) [1][10/20]    eta: 0:00:10")
    assert said is not None and (said.step, said.phase) == (None, "val")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_shape_reads_its_own_example_alone(shape: Shape) -> None:
    [example] = next(each["matches"] for each in WORDINGS["wording"] if each["name"] == shape.name)
    assert [other.name for other in SHAPES if other.pattern.search(example)] == [shape.name]
    said = read_line(example)
    assert said is not None and said.step is not None


_PIECES = st.sampled_from(
    [word for text in SAID for word in text.split(" ")]
    + ["step", "loss:", "[", "/", "\t", "9" * 40, "1e999", "nan", "\ud800", "\x1b[", "━", "%|", "'"]
)


@given(st.one_of(st.text(), st.lists(_PIECES).map(" ".join), st.lists(_PIECES).map("".join)))
def test_any_line_is_read_and_its_numbers_are_bounded(text: str) -> None:
    said = read_line(text)
    if said is not None:
        for count in (said.step, said.total, said.epochs):
            assert count is None or 0 <= count <= MOST
        assert said.epoch is None or said.epoch >= 0
        assert said.step is not None or said.unit == ""
        assert said.loss is None or isinstance(said.loss, float)
        assert len(text) <= LONGEST


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.floats(1e-9, 1e9))
def test_what_a_program_prints_is_what_is_read(step: int, total: int, loss: float) -> None:
    for text in (
        f"step {step}/{total} loss {loss!r}",
        f"Epoch 1: 5%|█ | {step}/{total} [00:12<00:20,  3.10it/s, train_loss={loss!r}]",
        f"{step}/{total} ━━━━━━━━━━ 1s 5ms/step - loss: {loss!r}",
        f" iteration {step:8d}/{total:8d} | lm loss: {loss!r} |",
    ):
        said = read_line(text)
        assert said is not None and (said.step, said.total) == (step, total)
        assert said.loss is not None and math.isclose(said.loss, loss)
