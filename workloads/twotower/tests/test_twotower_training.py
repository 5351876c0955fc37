"""Training as a user runs it: same seed, same losses; killed and resumed, same losses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from twotower.config import build_config
from twotower.dataset import open_data
from twotower.errors import NotFiniteError, TwotowerError
from twotower.journal import Journal
from twotower.ranks import Ranks
from twotower.train import Trainer, claim_run_folder, run_training

SMALL = ("--hidden", 16, "--bs", 8, "--accum", 2, "--no-bar", "--threads", 1, "--memory-bank", 50)
MINED = ("--mine-every", 7, "--mine-queries", 64, "--epochs", 2, "--checkpoint-every", 4)


def losses(run: Path) -> dict[int, float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if row["event"] == "step"}


def train(folder: Path, data: Path, **settings: Any) -> Path:
    """In this process."""
    small = {"hidden": 16, "batch_size": 8, "accum": 2, "threads": 1, "device": "cpu"}
    places = {"pairs": str(data / "pairs.npz"), "bank": str(data / "bank.npz")}
    config = build_config({**places, **small, "memory_bank": 50, "steps": 6, **settings})
    return run_training(config, folder, checkpoint=None, has_bar=False)


@pytest.fixture(scope="module")
def undisturbed(
    small_data: Path, tmp_path_factory: pytest.TempPathFactory, environment: Any
) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    command = [sys.executable, "-m", "twotower", "train", "--data", small_data, "--out", run]
    subprocess.run(
        [*map(str, command), *map(str, SMALL), *map(str, MINED)],
        env=environment,
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    return run


def test_it_learns(small_data: Path, tmp_path: Path) -> None:
    settings = {"steps": 60, "lr": 5e-3, "miner": "none", "memory_bank": 0, "batch_size": 16}
    of_step = list(losses(train(tmp_path / "run", small_data, **settings)).values())
    assert sum(of_step[-10:]) < 0.8 * sum(of_step[:10])


def test_a_run_leaves_its_record(undisturbed: Path) -> None:
    by_step = losses(undisturbed)
    assert list(by_step) == list(range(1, 41))
    rows = [json.loads(line) for line in (undisturbed / "metrics.jsonl").read_text().splitlines()]
    events = [row["event"] for row in rows]
    assert events[0] == "start" and events[-1] == "end"
    assert events.count("mining-started") == events.count("mining-ended") == 5
    assert {row["method"] for row in rows if row["event"] == "eval"} == {
        "model",
        "last vector",
        "mean vector",
    }
    assert [p.name for p in sorted((undisturbed / "checkpoints").iterdir())] == [
        "step-00000032.pt",
        "step-00000036.pt",
        "step-00000040.pt",
    ]
    assert "done: 40 steps" in (undisturbed / "train.log").read_text()
    assert "batch_size: 8" in (undisturbed / "config.yaml").read_text()


@pytest.mark.thorough
def test_killed_at_any_moment_and_resumed_it_is_the_same_run_bit_for_bit(
    undisturbed: Path, small_data: Path, tmp_path: Path, environment: dict[str, str], twotower: Any
) -> None:
    command = [sys.executable, "-m", "twotower", "train", "--data", small_data, "--out", "run"]
    run = tmp_path / "run"
    for deadly_step in (6, 17):  # before any mining; after two, between checkpoints
        arguments = [*command, *SMALL, *MINED, *(["--resume"] if run.exists() else [])]
        with subprocess.Popen(
            [*map(str, arguments), "--log-every", "1"],
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
    assert twotower("train", "--out", run, "--resume", "--no-bar").returncode == 0
    assert losses(run) == losses(undisturbed)  # exactly, to the last bit


@pytest.mark.thorough
def test_resume_refuses_another_training_and_takes_another_machine(
    small_data: Path, tmp_path: Path, twotower: Any
) -> None:
    run = train(tmp_path / "run", small_data)
    refused = twotower("train", "--out", run, "--resume", "--accum", 4)
    assert refused.returncode == 2
    assert "was started with --accum 2" in refused.stderr
    accepted = twotower("train", "--out", run, "--resume", "--miner", "none", "--workers", 0)
    assert accepted.returncode == 0, accepted.stderr


@pytest.mark.thorough
def test_a_named_checkpoint_goes_on_in_its_own_folder(
    small_data: Path, tmp_path: Path, twotower: Any
) -> None:
    run = train(tmp_path / "run-2", small_data)
    before = losses(run)
    earlier = min((run / "checkpoints").glob("step-*.pt"))
    done = twotower("train", "--out", tmp_path / "run", "--resume", earlier, "--no-bar")
    assert done.returncode == 0, done.stderr
    assert f"resumed from {earlier.name}" in done.stdout
    assert losses(run) == before
    assert not (tmp_path / "run").exists()
    missing = twotower("train", "--out", run, "--resume", "nowhere.pt")
    assert (missing.returncode, "no checkpoint nowhere.pt" in missing.stderr) == (2, True)


def test_a_damaged_checkpoint_is_named(small_data: Path, tmp_path: Path, twotower: Any) -> None:
    run = train(tmp_path / "run", small_data)
    checkpoint = run / "checkpoints" / "step-00000006.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    result = twotower("train", "--out", run, "--resume")
    assert result.returncode == 2
    assert "step-00000006.pt cannot be read" in result.stderr


def test_how_rows_are_read_and_grouped_changes_nothing(small_data: Path, tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"workers": 0},
        {"workers": 3},
        {"encode_rows": 8},
        {"encode_rows": 16},
    ]
    runs = [losses(train(tmp_path / "run", small_data, **each)) for each in settings]
    assert runs[1] == runs[0] and runs[2] == runs[0]
    for other in runs[3:]:
        for step, loss in other.items():
            assert loss == pytest.approx(runs[0][step], rel=1e-4)


def test_another_seed_is_another_run(small_data: Path, tmp_path: Path) -> None:
    one, two = (train(tmp_path / "run", small_data, seed=seed) for seed in (1, 2))
    assert losses(one) != losses(two)
    assert losses(one) == losses(train(tmp_path / "run", small_data, seed=1))


@pytest.mark.parametrize("miner", ["none", "faiss-process"])
def test_miners_other_than_the_default(small_data: Path, tmp_path: Path, miner: str) -> None:
    if miner != "none":
        pytest.importorskip("faiss")
    run = train(tmp_path / "run", small_data, miner=miner, mine_every=3, steps=6)
    if miner != "none":
        exact = train(tmp_path / "run", small_data, miner="exact", mine_every=3, steps=6)
        assert losses(run) == losses(exact)


def test_a_loss_that_is_not_finite_stops_with_its_batch_saved(
    small_data: Path, tmp_path: Path
) -> None:
    run = claim_run_folder(tmp_path / "run")
    data = open_data(small_data / "pairs.npz", small_data / "bank.npz")
    places = {"pairs": str(data.pairs_path), "bank": str(data.bank_path)}
    config = build_config({**places, "hidden": 16, "batch_size": 8, "accum": 2, "device": "cpu"})
    journal = Journal(run, is_first=True, has_bar=False)
    trainer = Trainer(config, data, Ranks(), run, journal)
    with torch.no_grad():
        trainer.model.project.weight[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="loss is not finite at step 0") as error:
        trainer.train()
    journal.close()
    assert error.value.exit_status == 3
    saved = torch.load(run / "not-finite-step-0-rank-0.pt", weights_only=True)
    assert saved["x"].shape[1:] == (5, 64) and len(saved["rows"]) == len(saved["loss"])
    assert '"event": "not-finite"' in (run / "metrics.jsonl").read_text()


@pytest.mark.thorough
def test_two_processes_train_to_the_loss_of_one(
    small_data: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    one = train(tmp_path / "one", small_data, mine_every=3, mine_queries=30)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "twotower", "train", "--data", small_data, "--out", tmp_path / "two", *SMALL),
        *("--steps", 6, "--mine-every", 3, "--mine-queries", 30, "--device", "cpu"),
    ]
    result = subprocess.run(
        list(map(str, command)),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for step, loss in losses(tmp_path / "two").items():
        assert loss == pytest.approx(losses(one)[step], rel=1e-4)


def test_a_run_is_never_written_over(tmp_path: Path, small_data: Path) -> None:
    first = train(tmp_path / "run", small_data, steps=1)
    second = train(tmp_path / "run", small_data, steps=1)
    assert (first.name, second.name) == ("run", "run-2")


def test_an_effective_batch_larger_than_the_data_is_refused(
    small_data: Path, tmp_path: Path
) -> None:
    with pytest.raises(TwotowerError, match="8 x 64 = 512 rows is more than the 320 pairs"):
        train(tmp_path / "run", small_data, accum=64)
