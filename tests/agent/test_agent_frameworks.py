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
