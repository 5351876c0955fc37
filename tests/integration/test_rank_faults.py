"""Real gloo ranks of which one goes wrong: the answer names it, and why.

The whole table of faults, seeds and launchers is benchmarks/rank_faults.py; these are the ones that
tell most.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent.parent / "programs" / "rank_train.py"
TOGETHER = (
    'for r in 0 1; do RANK=$r WORLD_SIZE=2 "$@" & p="$p $!"; done; s=0; '
    "for i in $p; do wait -n || { s=$?; break; }; done; kill $p 2>/dev/null; wait; exit $s"
)


def explained(folder: Path, launcher: str, fault: str, *more: str) -> dict[str, Any]:
    """Two ranks of which number 1 goes wrong; what `rerail explain` says of it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environ |= {"OMP_NUM_THREADS": "1", "RERAIL_HOME": str(folder / "home")}
    words = [str(PROGRAM), "--fault", fault, "--victim", "1", *more]
    if launcher == "torchrun":
        words = [
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            f"--master-port={port}",
            *words,
        ]
    command = [sys.executable, *words]
    if launcher == "script":
        if shutil.which("bash") is None:
            pytest.skip("the script that starts the ranks needs bash")
        command = ["bash", "-c", TOGETHER, "train", *command]
    elif launcher == "spawn":
        command += ["--spawn", "2"]
    rerail = [sys.executable, "-m", "rerail"]
    subprocess.run(
        [*rerail, "run", "--quiet", "--", *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=600,
    )
    told = subprocess.run(
        [*rerail, "explain", "last", "--json"], env=environ, capture_output=True, timeout=240
    )
    document: dict[str, Any] = json.loads(told.stdout)
    return document


@pytest.mark.thorough
def test_a_rank_that_leaves_with_exit_code_0(tmp_path: Path) -> None:
    document = explained(tmp_path, "script", "leave")
    assert document["facts"]["failed_first"] == "rank 1", document
    assert "left with exit code 0 after step 12" in document["headline"]
    shown = subprocess.run(
        [sys.executable, "-m", "rerail", "show", "last", "--rank", "1", "--json"],
        env={**os.environ, "RERAIL_HOME": str(tmp_path / "home")},
        capture_output=True,
        timeout=240,
    )
    rank = json.loads(shown.stdout)
    assert rank["steps"] == 12 and rank["world_size"] == 2
    assert rank["collectives"][-1]["place"]["function"] == "reduce"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "fault", "cause", "words"),
    [
        ("torchrun", "hang", "collective-timeout", "rank 0 waited in all_reduce #25"),
        ("torchrun", "native-hang", "collective-timeout", "gave up after"),
        ("script", "slow", "collective-timeout", "rank 1 (pid"),
        ("torchrun", "other", "collective-mismatch", "called broadcast #25"),
        ("script", "shape", "collective-mismatch", "of 64 instead of 1x4"),
        ("spawn", "skip", "collective-mismatch", "called barrier #25"),
        ("torchrun", "os-leave", "peer-died", "left with exit code 0"),
        ("torchrun", "threads", "python-exception", "shard 7 has no labels"),
        ("spawn", "raise", "python-exception", "no label for row 12"),
        ("script", "segfault", "native-segfault", "SIGSEGV"),
        ("torchrun", "worker", "native-segfault", "SIGSEGV"),
        ("script", "early", "bad-config", "data_root"),
    ],
)
def test_the_first_rank_and_the_cause(
    tmp_path: Path, launcher: str, fault: str, cause: str, words: str
) -> None:
    document = explained(tmp_path, launcher, fault, "--timeout", "20")
    assert document["facts"]["failed_first"] == "rank 1", document["headline"]
    assert document["causes"][0]["id"] == cause, document["causes"]
    assert words.lower() in document["headline"].lower()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "spawn"])
def test_gradients_that_a_rank_did_not_come_for(tmp_path: Path, launcher: str) -> None:
    document = explained(tmp_path, launcher, "hang", "--ddp", "--timeout", "20")
    assert document["facts"]["failed_first"] == "rank 1"
    assert "waited in the reduction of gradients #13" in document["headline"]


@pytest.mark.slow
def test_a_healthy_job_has_no_first(tmp_path: Path) -> None:
    document = explained(tmp_path, "torchrun", "")
    assert document["outcome"]["kind"] == "ok"
    assert document["causes"] == [] and "failed_first" not in document["facts"]
