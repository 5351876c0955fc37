"""`rerail.step` and `rerail.phase` in a recorded program, in one that is not, and in trainers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import rerail
from rerail.api import Run, runs
from rerail.records import BlackBox

GUARD_SECONDS = 240
STEPS = """
import rerail
for n in range(1000, 1005):
    rerail.step(n, loss=0.5, total=2000)
"""


def recorded(tmp_path: Path, program: str) -> tuple[Run, BlackBox]:
    script = tmp_path / "train.py"
    script.write_text(program)
    words = [sys.executable, "-m", "rerail", "run", "-q", "--home", str(tmp_path / "home")]
    subprocess.run([*words, "--", sys.executable, str(script)], timeout=GUARD_SECONDS, cwd=tmp_path)
    (run,) = runs(home=tmp_path / "home")
    from rerail.store import RunFolder

    (box,) = RunFolder(run.folder).boxes()
    return run, box


def test_the_step_that_the_program_names_is_the_one_in_the_answer(tmp_path: Path) -> None:
    run, box = recorded(tmp_path, STEPS + "rerail.phase('evaluate')\nraise ValueError('7')")
    assert run.facts["last_step"] == 1004
    assert (box.optimizer_steps, box.phase, box.loss) == (5, "validate", 0.5)
    assert box.progress_text == "step 1004/2000" and box.notes == []


def test_a_phase_ends_with_its_block_and_nonsense_is_noted(tmp_path: Path) -> None:
    program = (
        "import rerail\n"
        "rerail.phase('train')\n"
        "with rerail.phase('saving'): pass\n"
        "with rerail.phase('dancing'): pass\n"
        "rerail.phase(None)\n"
        "rerail.step('five', loss='much')\n"
        "rerail.step(float('nan'))\n"
    )
    run, box = recorded(tmp_path, program)
    assert not run.has_failed and box.phase == "train"
    assert len(box.notes) == 2  # one for each of the two functions


@pytest.mark.thorough
@pytest.mark.torch
def test_an_optimizers_own_count_is_not_doubled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (
        "import rerail, torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for n in range(6):\n"
        "    loss = model(torch.ones(3, 2)).sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    rerail.step(n, loss=loss)\n"
    )
    _, box = recorded(tmp_path, program)
    assert box.optimizer_steps == 6 and box.progress_text == "step 5"


def test_nothing_happens_where_nobody_records() -> None:
    assert rerail.step(1, loss="anything") is None  # type: ignore[func-returns-value]
    with rerail.phase("dancing"):
        pass


LIGHTNING = """
import lightning, torch
from rerail.integrations.lightning import RerailCallback
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
data = torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=4)
trainer = lightning.Trainer(max_steps=6, accelerator="cpu", logger=False, barebones=False,
    enable_checkpointing=False, enable_progress_bar=False, callbacks=[RerailCallback()])
trainer.fit(Model(), data)
"""
HUGGING_FACE = """
import torch, transformers
from rerail.integrations.huggingface import RerailCallback
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return {"loss": self.layer(x).pow(2).mean()}
arguments = transformers.TrainingArguments("out", max_steps=6, report_to=[], use_cpu=True,
    logging_steps=2, save_strategy="no", disable_tqdm=True, remove_unused_columns=False)
data = [{"x": torch.randn(4)} for _ in range(32)]
transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[RerailCallback()]).train()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "program"), [("lightning", LIGHTNING), ("transformers", HUGGING_FACE)]
)
def test_the_callbacks_of_trainers(tmp_path: Path, module: str, program: str) -> None:
    for needed in (module, "torch", *(["accelerate"] if module == "transformers" else [])):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    run, box = recorded(tmp_path, program)
    assert not run.has_failed
    assert box.optimizer_steps == 6 and box.phase == "train"
    assert box.progress_text == "step 6/6" and box.loss is not None
