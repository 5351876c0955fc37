"""Two ranks under every launcher that is here, and one goes wrong: who is who, whose lines, who
failed first, and of what. Each launcher is the real one; what is not installed is skipped."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import Slurm

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PROGRAMS = Path(__file__).parent.parent / "programs"
TRAIN = [sys.executable, str(PROGRAMS / "rank_train.py")]
RERAIL = [sys.executable, "-m", "rerail"]
# Waits for its ranks, and ends with 0 whatever became of them.
SCRIPT = 'for r in 0 1; do RANK=$r WORLD_SIZE=2 "$@" > rank$r.out 2>&1 & done; wait'


def torchrun(port: str) -> list[str]:
    module = [sys.executable, "-m", "torch.distributed.run"]
    return [*module, "--nproc-per-node=2", f"--master-port={port}", *TRAIN[1:]]


def torchrun_with_logs(port: str) -> list[str]:
    command = torchrun(port)
    return [*command[:-1], "--redirects=3", "--log-dir=logs", *command[-1:]]


def accelerate(port: str) -> list[str]:
    _needs("accelerate")
    module = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    module += ["--num_processes=2", "--num_machines=1", "--mixed_precision=no"]
    module += ["--dynamo_backend=no", f"--main_process_port={port}", "--tee=3", "--log_dir=logs"]
    return [*module, *TRAIN[1:]]


def deepspeed(port: str) -> list[str]:
    _needs("deepspeed")
    runner = [sys.executable, "-m", "deepspeed.launcher.runner", "--num_gpus=2"]
    return [*runner, f"--master_port={port}", "--enable_each_rank_log=logs", *TRAIN[1:]]


def mpirun(port: str) -> list[str]:
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun (apt install openmpi-bin)")
    options = ["--oversubscribe", "--tag-output", "-np", "2"]
    options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *options, *TRAIN]


def script(port: str) -> list[str]:
    return ["bash", "-c", SCRIPT, "launch.sh", *TRAIN]


def _needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def environment(folder: Path) -> tuple[dict[str, str], str]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environ |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    return {**environ, "RERAIL_HOME": str(folder / "home")}, port


def asked(environ: dict[str, str], *words: str) -> dict[str, Any]:
    told = subprocess.run(
        [*RERAIL, *words, "--json"], env=environ, capture_output=True, timeout=240
    )
    document: dict[str, Any] = json.loads(told.stdout)
    return document


def recorded(folder: Path, command: list[str], environ: dict[str, str]) -> None:
    subprocess.run(
        [*RERAIL, "run", "--quiet", "--", *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=400,
    )


@pytest.mark.parametrize(
    ("launcher", "fault", "cause", "node"),
    [
        (torchrun_with_logs, "raise", "python-exception", 0),
        (accelerate, "segfault", "native-segfault", 0),
        (deepspeed, "segfault", "native-segfault", 0),
        (mpirun, "segfault", "native-segfault", None),
        (script, "raise", "python-exception", None),
    ],
)
def test_who_is_who_and_who_failed_first(
    tmp_path: Path, launcher: Callable[[str], list[str]], fault: str, cause: str, node: int | None
) -> None:
    environ, port = environment(tmp_path)
    recorded(tmp_path, [*launcher(port), "--fault", fault, "--own-log"], environ)
    document = asked(environ, "explain", "last")
    assert document["facts"]["failed_first"] == "rank 1", document["headline"]
    assert document["causes"][0]["id"] == cause, document["causes"]
    assert document["facts"]["where"]["function"] in ("raise_here", "go_wrong")
    processes = asked(environ, "show", "last")["processes"]
    ranks = {p["rank"]: p for p in processes if p["role"] == "rank"}
    assert sorted(ranks) == [0, 1]
    assert {(p["world_size"], p["node"]) for p in ranks.values()} == {(2, node)}
    parent = "shell" if launcher is script else "launcher"
    assert any(p["role"] == parent for p in processes)
    rank = asked(environ, "show", "last", "--rank", "1")
    assert (rank["world_size"], rank["node"], rank["steps"]) == (2, node, 12)
    [own] = [log for log in rank["logs"] if Path(log["path"]).name == "rank1.log"]
    assert own["lines"][-1] == "step 11 on rank 1"
    said = [line for log in rank["logs"] for line in log["lines"]]
    said += [line["text"] for line in rank["output"]]
    assert fault == "segfault" or any("no label for row 12" in line for line in said)


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
@pytest.mark.parametrize("fault", ["raise", "segfault"])
def test_the_ranks_that_lightning_starts(tmp_path: Path, strategy: str, fault: str) -> None:
    _needs("lightning")
    environ, _ = environment(tmp_path)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        del environ[name]
    program = [sys.executable, str(PROGRAMS / "lightning_ranks.py")]
    recorded(tmp_path, [*program, strategy, fault, "1"], environ)
    document = asked(environ, "explain", "last")
    assert document["facts"]["failed_first"] == "rank 1", document["headline"]
    expected = "python-exception" if fault == "raise" else "native-segfault"
    assert document["causes"][0]["id"] == expected, document["causes"]
    assert document["facts"]["where"]["function"] == "bad_batch"
    shown = asked(environ, "show", "last")["processes"]
    assert {p["rank"]: p["world_size"] for p in shown if p["rank"] is not None} == {0: 2, 1: 2}


def test_loader_workers_have_the_number_that_torch_gave_them(tmp_path: Path) -> None:
    environ, port = environment(tmp_path)
    recorded(tmp_path, [*torchrun(port), "--workers", "2", "--steps", "20"], environ)
    shown = asked(environ, "show", "last")["processes"]
    workers = [(p["rank"], p["worker"]) for p in shown if p["role"] == "loader-worker"]
    assert sorted(workers) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_ranks_of_srun_although_they_are_children_of_another(tmp_path: Path) -> None:
    """Slurm's daemon starts them: the recorder above `srun` sees their black boxes alone."""
    environ, _ = environment(tmp_path)
    cluster = tmp_path / "slurm"
    cluster.mkdir()
    with Slurm(cluster) as slurm:
        environ |= {"SLURM_CONF": slurm.environ["SLURM_CONF"]}
        command = ["srun", "-N2", "-n2", "--label", *TRAIN, "--fault", "segfault"]
        recorded(tmp_path, command, environ)
    document = asked(environ, "explain", "last")
    assert document["facts"]["failed_first"] == "rank 1", document["headline"]
    assert document["causes"][0]["id"] == "native-segfault"
    rank = asked(environ, "show", "last", "--rank", "0")
    assert (rank["world_size"], rank["steps"]) == (2, 12)
    assert any("Connection" in line["text"] for line in rank["output"])
