"""Training as a user runs it: same seed, same bytes; killed and resumed, same bytes."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lowlight.errors import LowlightError, NotFiniteError
from lowlight.journal import Journal, read_metrics
from lowlight.pairs import load_batches
from lowlight.pictures import open_pictures
from lowlight.train import Trainer, new_config, run_training

ARTIFACTS = ("weights.pt", "samples.png", "metrics.json")


def artifacts(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in ARTIFACTS]


def open_trainer(settings: dict[str, Any], folder: Path) -> Trainer:
    config = new_config(settings)
    pictures = open_pictures(config.pictures, config.crop)
    return Trainer(config, pictures, torch.device("cpu"), folder, Journal(folder))


@pytest.fixture(scope="module")
def undisturbed(small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    run_training(run, small, is_resumed=False)
    return run


def test_a_run_leaves_its_record(undisturbed: Path) -> None:
    rows = list(read_metrics(undisturbed))
    assert [row["step"] for row in rows if row["event"] == "step"] == list(range(1, 13))
    assert [rows[0]["event"], rows[-1]["event"]] == ["start", "end"]
    assert {"loss", "rgb", "hvi", "face", "lr", "grad_norm", "seconds"} <= set(rows[1])
    kept = sorted(path.name for path in (undisturbed / "checkpoints").iterdir())
    assert kept == ["step-00000010.pt", "step-00000012.pt"]
    summary = json.loads((undisturbed / "metrics.json").read_text())
    assert summary["settings"]["face_weight"] == 0.5
    assert {"psnr", "ssim", "identity", "input_psnr", "equalised_psnr"} <= set(summary)
    assert "done: 12 steps" in (undisturbed / "train.log").read_text()


@pytest.mark.thorough
def test_it_learns(small: dict[str, Any], tmp_path: Path) -> None:
    more = {"steps": 60, "width": 8, "batch_size": 8, "face_weight": 0.0, "crop": 32}
    run_training(tmp_path / "run", {**small, **more}, is_resumed=False)
    summary = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert summary["psnr"] > summary["input_psnr"] + 3
    assert summary["psnr"] > summary["equalised_psnr"] + 1


@pytest.mark.thorough
def test_killed_at_any_moment_and_resumed_it_is_the_same_run_byte_for_byte(
    undisturbed: Path,
    small_flags: list[str],
    tmp_path: Path,
    environment: dict[str, str],
    lowlight: Any,
) -> None:
    command = [sys.executable, "-m", "lowlight", "train", "--out", "run", "--resume"]
    for deadly_step in (3, 8):  # before the first checkpoint, and between two
        with subprocess.Popen(
            [*command, *small_flags, "--threads", "2", "--log-every", "1"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(f"step {deadly_step}/"):
                    os.kill(process.pid, signal.SIGKILL)
                    break
    run = tmp_path / "run"
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "st')  # what a power cut leaves
    (run / "checkpoints" / "step-00000010.pt.77.partial").write_bytes(b"half")
    result = lowlight("train", "--out", run, "--resume", "--threads", 1)
    assert result.returncode == 0, result.stderr
    assert "resumed from step-00000005.pt" in result.stdout
    assert artifacts(run) == artifacts(undisturbed)
    names = {str(path.relative_to(run)) for path in run.rglob("*")}
    assert names == {str(path.relative_to(undisturbed)) for path in undisturbed.rglob("*")}
    assert [row["event"] for row in read_metrics(run)].count("resumed") == 1


def test_a_finished_run_is_left_as_it_is(undisturbed: Path, capfd: Any) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    run_training(undisturbed, {}, is_resumed=True)
    assert "is complete" in capfd.readouterr().out
    with pytest.raises(LowlightError, match="holds a run already"):
        run_training(undisturbed, {}, is_resumed=False)
    assert before == {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}


def test_resume_refuses_another_training(undisturbed: Path) -> None:
    with pytest.raises(LowlightError, match=r"was started with --d-weight 1\.0"):
        run_training(undisturbed, {"d_weight": 1.5}, is_resumed=True)


def test_a_damaged_checkpoint_costs_the_steps_since_the_one_before(
    undisturbed: Path, small: dict[str, Any], tmp_path: Path, capfd: Any
) -> None:
    run = tmp_path / "run"
    run_training(run, small, is_resumed=False)
    for name in ARTIFACTS:
        (run / name).unlink()
    last = run / "checkpoints" / "step-00000012.pt"
    last.write_bytes(last.read_bytes()[:1000])
    run_training(run, small, is_resumed=True)
    assert "step-00000012.pt cannot be read" in capfd.readouterr().out
    assert artifacts(run) == artifacts(undisturbed)


def test_another_seed_or_weight_is_another_training(small: dict[str, Any], tmp_path: Path) -> None:
    losses = []
    for name, change in enumerate(({}, {"seed": 1}, {"d_weight": 1.5}, {"face_weight": 0.0})):
        (tmp_path / str(name)).mkdir()
        trainer = open_trainer({**small, **change}, tmp_path / str(name))
        (batch,) = load_batches(trainer.pairs, 4, 0, 1, 0)
        losses.append(trainer.take_step(*batch)["loss"])
    assert len(set(losses)) == 4


def test_no_tensor_outlives_its_step(small: dict[str, Any], tmp_path: Path) -> None:
    trainer = open_trainer(small, tmp_path)
    living = []
    for dark, bright in load_batches(trainer.pairs, 4, 0, 12, 0):
        trainer.take_step(dark, bright)
        if trainer.step in (3, 6, 12):  # the first step makes the optimizer's state
            gc.collect()
            living.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
    assert len(living) == 3 and len(set(living)) == 1


def test_a_loss_that_is_not_finite_stops_the_run(small: dict[str, Any], tmp_path: Path) -> None:
    trainer = open_trainer(small, tmp_path)
    bright = torch.full((4, 3, 16, 16), float("nan"))
    with pytest.raises(NotFiniteError, match="not finite at step 0"):
        trainer.take_step(torch.zeros_like(bright), bright)


def test_two_processes_do_not_train_in_one_folder(
    undisturbed: Path, tmp_path: Path, lowlight: Any
) -> None:
    (tmp_path / "config.json").write_bytes((undisturbed / "config.json").read_bytes())
    journal = Journal(tmp_path)
    try:
        result = lowlight("train", "--out", tmp_path, "--resume")
    finally:
        journal.close()
    assert result.returncode == 2
    assert "another process is training in" in result.stderr
