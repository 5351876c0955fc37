"""Trainers of other people under `rerail run`: unharmed while they live, explained when they die.

`make foreign` installs them into an environment of their own; without it these tests are skipped.
Every run leaves what was said of it in out/foreign, from which scripts/write-foreign-table writes
docs/foreign-trainers.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from foreign_deaths import Death, judged, read_deaths
from foreign_runs import ROOT, Run, need_foreign, recorded, run
from foreign_stages import staged, words_of

pytestmark = pytest.mark.slow
RESULTS = ROOT / "out" / "foreign"

# How each is started, and what the record is to say of how far it came.
HEALTHY: dict[str, tuple[str, dict[str, Any]]] = {
    "hf_trainer.py": ("python", {"last_step": 20, "epoch": 2}),
    "accelerate_train.py": ("accelerate", {"last_step": 48, "epoch": 2}),
    "lightning_train.py": ("python", {"last_step": 16, "epoch": 1}),
    "sklearn_search.py": ("python", {}),  # a search has no steps
    "xgboost_train.py": ("python", {"last_step": 20}),
    "lightgbm_train.py": ("python", {"last_step": 20}),
    "catboost_train.py": ("python", {"last_step": 20}),
    "flax_train.py": ("python", {"last_step": 40}),
    "keras_train.py": ("python", {"last_step": 24}),
    "ray_train.py": ("python", {"last_step": 9}),  # these two count from zero, and print it
    "ray_actors.py": ("python", {"last_step": 11}),
    "datasets_map.py": ("python", {"last_step": 10}),
    "torch_limits.py": ("python", {"last_step": 60}),
    "ddp_train.py": ("torchrun", {"last_step": 30}),
    "notebook.py": ("papermill", {"last_step": 20}),
}

# Where neither a hook nor a line of output tells how far it came.
NOT_COUNTED = {"catboost_train.py"}


@pytest.fixture(autouse=True)
def installed() -> None:
    need_foreign()


def keep(name: str, done: Run, **more: Any) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {"status": done.status, "home": str(done.home), "answer": done.answer, **more}
    (RESULTS / f"{name}.json").write_text(json.dumps(result))


@pytest.fixture(params=HEALTHY)
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_healthy_training_is_left_alone(program: str, tmp_path: Path) -> None:
    launcher, expected = HEALTHY[program]
    bare, under = tmp_path / "bare", tmp_path / "recorded"
    for folder in (bare, under):
        folder.mkdir()
    alone = run(bare, words_of(launcher, program, "", bare))
    assert alone.status == 0, alone.output[-3000:]
    done = run(under, recorded(under, *words_of(launcher, program, "", under)))

    assert done.status == 0, done.output[-3000:]
    assert alone.final_loss is not None
    assert done.final_loss == alone.final_loss
    assert (done.answer["outcome"]["kind"], done.answer["causes"]) == ("ok", [])
    assert "rerail:" not in done.output  # no warning
    facts = done.answer["facts"]
    wrong = {name: facts.get(name) for name in expected if facts.get(name) != expected[name]}
    keep(f"healthy-{program}", done, wrong=wrong, loss=done.final_loss, shown=done.shown)
    print(program, done.final_loss, wrong or "right")
    assert float(facts["loss"]) == pytest.approx(float(done.final_loss), rel=1e-3)
    if "optimizer_steps" in facts:
        assert done.shown["progress"]["steps"] == facts["optimizer_steps"]
    if program in NOT_COUNTED:
        assert set(wrong) == set(expected), "it is counted now: take it off the list"
        pytest.xfail("not counted yet")
    assert not wrong


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
