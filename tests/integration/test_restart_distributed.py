"""`rerail run --restarts` on a job of several ranks, from a checkpoint that all of them wrote."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / "programs" / "job_goes_on.py"

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def torchrun(*options: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *options]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def two_ranks(*arguments: str) -> list[str]:
    port = f"--master-port={free_port()}"
    return [*torchrun("--nproc-per-node=2", port), str(PROGRAM), *arguments]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def weights(text: str) -> str:
    found = re.search(r"weights (\S+)", text)
    assert found, text
    return found[1]


def test_two_ranks_go_on_from_the_newest_checkpoint_that_is_whole(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    whole.mkdir()
    torn.mkdir()
    bare = run(two_ranks(), whole)
    assert bare.returncode == 0, bare.stderr
    rerail = [sys.executable, "-m", "rerail", "run", "--home", "home", "--restarts", "2"]
    rerail += ["--checkpoint", "ck/step-*", "--resume-args", "--resume {checkpoint}"]
    done = run([*rerail, "--backoff", "0", "--", *two_ranks("--dies-at", "8")], torn)
    assert done.returncode == 0, done.stderr
    assert "checkpoint ck/step-6 is passed over: __1_0.distcp" in " ".join(done.stderr.split())
    assert "goes on from ck/step-3" in " ".join(done.stderr.split())
    assert "rank 1 goes on at step 4" in done.stdout
    assert weights(done.stdout) == weights(bare.stdout)
    infos = [json.loads(path.read_text()) for path in (torn / "home/runs").glob("*/run.json")]
    second = max(infos, key=lambda info: info["started_unix"])
    assert second["settings"]["resumed_from"] == "ck/step-3"
