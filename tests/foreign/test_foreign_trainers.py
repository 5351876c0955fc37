"""Trainers of other people under `rerail run`: unharmed while they live, explained when they die.

`make foreign` installs them into an environment of their own; without it these tests are skipped.
Every run leaves what was said of it in out/foreign, from which scripts/write-foreign-table writes
docs/foreign-trainers.md.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from foreign_deaths import Death, judged, read_deaths
from foreign_runs import ROOT, Run, need_foreign, recorded, run
from foreign_stages import staged, words_of

pytestmark = pytest.mark.slow
RESULTS = ROOT / "out" / "foreign"


@dataclass(frozen=True)
class Healthy:
    """A program that ends well: what the record is to say of how far it came, and `show` too.

    `last_step` is the program's own number where it prints one, `steps` what was done; an `epoch`
    is counted from 0 or from 1 as the framework does.
    """

    last_step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    launcher: str = "python"
    has_loss: bool = True  # that the program prints or its framework computes

    @property
    def facts(self) -> dict[str, int]:
        known = {"last_step": self.last_step, "epoch": self.epoch}
        return {name: value for name, value in known.items() if value is not None}


HEALTHY = {
    "hf_trainer.py": Healthy(20, 20, 2),
    "accelerate_train.py": Healthy(48, 48, 2, "accelerate"),
    "lightning_train.py": Healthy(16, 16, 1),
    "sklearn_search.py": Healthy(has_loss=False),  # a search has no steps of its own
    "sklearn_train.py --model network": Healthy(30, 30, 30),
    "sklearn_train.py --model linear": Healthy(25, 25, has_loss=False),
    "sklearn_train.py --model linear --verbose 1": Healthy(25, 25),
    "sklearn_train.py --model boosting": Healthy(20, 20),
    "sklearn_train.py --model boosting --verbose 1": Healthy(20, 20),
    "sklearn_train.py --model forest --verbose 2": Healthy(15, 15, has_loss=False),
    "xgboost_train.py": Healthy(20, 20),
    "lightgbm_train.py": Healthy(20, 20),
    "catboost_train.py": Healthy(20, 20),  # only the output tells
    "flax_train.py": Healthy(40, 40),  # only the output tells
    "keras_train.py": Healthy(24, 24, 3),
    "keras_train.py --backend jax": Healthy(24, 24, 3),
    "own_loop.py": Healthy(20, 60, 3),
    "own_loop.py --bar": Healthy(20, 60, 3),
    "ray_train.py": Healthy(9, 10),  # these two count from zero, and print it
    "ray_actors.py": Healthy(11, 12),
    "datasets_map.py": Healthy(10, 10),
    "torch_limits.py": Healthy(60, 60),
    "ddp_train.py": Healthy(30, 30, launcher="torchrun"),
    "notebook.py": Healthy(20, 20, launcher="papermill"),
}


# Their steps may take less than the 5 ms that lie between two looks of the agent at the loss, and
# they print it every few steps: which step's loss is on record last depends on the clock.
LOSS_OF_AN_EARLIER_STEP = {
    "lightning_train.py",
    "datasets_map.py",
    "torch_limits.py",
    "ddp_train.py",
    "notebook.py",
}


@pytest.fixture(autouse=True)
def installed() -> None:
    need_foreign()


def keep(name: str, done: Run, **more: Any) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {"status": done.status, "home": str(done.home), "answer": done.answer, **more}
    (RESULTS / f"{name}.json").write_text(json.dumps(result))


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_is_left_alone(name: str, tmp_path: Path) -> None:
    expected = HEALTHY[name]
    program, _, arguments = name.partition(" ")
    bare, under = tmp_path / "bare", tmp_path / "recorded"
    for folder in (bare, under):
        folder.mkdir()
    alone = run(bare, words_of(expected.launcher, program, arguments, bare))
    assert alone.status == 0, alone.output[-3000:]
    done = run(under, recorded(under, *words_of(expected.launcher, program, arguments, under)))

    assert done.status == 0, done.output[-3000:]
    assert alone.final_loss is not None
    assert done.final_loss == alone.final_loss
    assert (done.answer["outcome"]["kind"], done.answer["causes"]) == ("ok", [])
    assert "rerail:" not in done.output  # no warning
    facts, shown = done.answer["facts"], done.shown
    wrong = {n: facts.get(n) for n, value in expected.facts.items() if facts.get(n) != value}
    wrong |= wrongly_shown(expected, shown, float(done.final_loss))
    keep(f"healthy-{name}", done, wrong=wrong, loss=done.final_loss, shown=shown)
    print(name, done.final_loss, wrong or "right")
    if expected.has_loss and name not in LOSS_OF_AN_EARLIER_STEP:
        assert float(facts["loss"]) == pytest.approx(float(done.final_loss), rel=1e-3)
    assert not set(wrong) - ({"shown loss"} if name in LOSS_OF_AN_EARLIER_STEP else set())


def wrongly_shown(expected: Healthy, shown: dict[str, Any], loss: float) -> dict[str, Any]:
    """What `rerail show` says otherwise than it was."""
    progress, last = shown["progress"] or {}, (shown["loss"] or {}).get("latest")
    said = {"shown steps": progress.get("steps") or None, "shown epoch": progress.get("epoch")}
    right = {"shown steps": expected.steps, "shown epoch": expected.epoch}
    wrong = {n: said[n] for n, value in right.items() if value is not None and said[n] != value}
    if expected.has_loss and (last is None or last != pytest.approx(loss, rel=1e-3)):
        wrong["shown loss"] = last
    return wrong


def deaths() -> list[Any]:
    def marks(death: Death) -> list[Any]:
        return [pytest.mark.xfail(strict=True, reason=death.not_yet)] if death.not_yet else []

    return [pytest.param(death, id=death.name, marks=marks(death)) for death in read_deaths()]


@pytest.mark.parametrize("death", deaths())
def test_a_death_is_explained(death: Death, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    done = staged(death, tmp_path, request)
    wrong = judged(death, done.answer)
    keep(death.name, done, wrong=wrong)
    print(death.name, "|", done.answer["headline"], "|", wrong or "right")
    assert death.status is None or done.status == death.status
    assert not wrong, (wrong, done.output[-1500:])
