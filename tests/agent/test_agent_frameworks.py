"""Trainers of other people, where they are installed: epoch, phase and steps without a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import Runner

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

TRAINER = """
import torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        out = self.layer(x); return {"loss": ((out - labels) ** 2).mean(), "logits": out}
rows = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(40)]
arguments = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4,
    report_to=[], use_cpu=True, save_strategy="no", gradient_accumulation_steps=2)
Trainer(Model(), arguments, train_dataset=rows).train()
"""

LIGHTNING = """
import torch, lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, i): return (self.layer(batch) ** 2).mean()
    def validation_step(self, batch, i): self.log("v", (self.layer(batch) ** 2).mean())
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
trainer = lightning.Trainer(max_epochs=2, logger=False, enable_checkpointing=False,
    accelerator="cpu")
trainer.fit(Model(), data, data)
"""


def test_hugging_face_trainer(run: Runner, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    box = run(["-c", TRAINER]).box

    assert (box.optimizer_steps, box.backward_per_step, box.batches) == (10, 2.0, 20)
    assert (box.epoch, box.phase, box.progress_text) == (2, "train", "10/10")
    assert box.notes == ["the Trainer's hooks are on"]


def test_lightning(run: Runner) -> None:
    pytest.importorskip("lightning")
    box = run(["-c", LIGHTNING]).box

    assert (box.optimizer_steps, box.epoch, box.phase) == (20, 1, "validate")
    assert box.notes == ["Lightning's hooks are on"]


DATA = """
import numpy
numbers = numpy.random.default_rng(0)
x = numbers.normal(size=(200, 4))
y = x[:, 0] * 2
"""
LIGHTGBM = (
    DATA
    + """
import lightgbm
data = lightgbm.Dataset(x, y)
settings = {"objective": "regression", "verbosity": -1, "num_threads": 1}
lightgbm.train(settings, data, num_boost_round=12, valid_sets=[data])
"""
)
XGBOOST = (
    DATA
    + """
import xgboost
data = xgboost.DMatrix(x, y)
xgboost.train({"nthread": 1}, data, 12, evals=[(data, "train")], verbose_eval=False)
"""
)
KERAS = (
    DATA
    + """
import keras
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(x, y, epochs=3, batch_size=50, verbose=0)
"""
)
SKLEARN = (
    DATA
    + """
import warnings
warnings.simplefilter("ignore")
from sklearn.linear_model import SGDRegressor
from sklearn.neural_network import MLPRegressor
MLPRegressor(hidden_layer_sizes=(4,), max_iter=7).fit(x, y)
model = SGDRegressor()
for _ in range(5):
    model.partial_fit(x, y)
"""
)
SKLEARN_BOOSTING = (
    DATA
    + """
from sklearn.ensemble import GradientBoostingRegressor
model = GradientBoostingRegressor(n_estimators=12).fit(x, y)
"""
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("package", "program", "steps", "epoch"),
    [
        ("lightgbm", LIGHTGBM, 12, None),
        ("xgboost", XGBOOST, 12, None),
        ("keras", KERAS, 12, 3),
        ("sklearn", SKLEARN, 12, 7),
        ("sklearn", SKLEARN_BOOSTING, 12, None),
    ],
)
def test_trainers_with_optimizers_of_their_own(
    run: Runner, package: str, program: str, steps: int, epoch: int | None
) -> None:
    pytest.importorskip(package)
    box = run(["-c", program]).box

    assert (box.optimizer_steps, box.epoch, box.phase) == (steps, epoch, "train")
    assert box.loss is not None and 0 < box.loss < 100
    assert [point.step for point in box.history][-1] == steps
