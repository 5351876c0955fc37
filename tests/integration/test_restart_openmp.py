"""Two OpenMP runtimes kill a training: explained, the fix verified, gone on with to the end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_isolate_openmp import build

TRAINS = [sys.executable, str(Path(__file__).parent.parent / "programs" / "remedy_trains.py")]


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, cwd=folder, stdin=subprocess.DEVNULL
    )


@pytest.mark.thorough
@pytest.mark.torch
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_run_is_back_on_the_rails_and_nothing_is_different(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    runtime = Path(sys.prefix) / "lib" / "libiomp5.so"
    if not runtime.exists():
        pytest.skip("needs intel-openmp")
    for name in ("first", "second"):
        build(tmp_path, name, runtime)
    whole = call(tmp_path, *TRAINS, "--out", "whole").stdout.splitlines()[-1]
    command = [*TRAINS, "--how", str(tmp_path), "--dies-at", "18", "--dies-when", "always"]
    rerail = [sys.executable, "-m", "rerail"]

    gone_on = call(
        tmp_path,
        *(*rerail, "run", "--restarts", "1", "--backoff", "0", "--checkpoint", "out/*.pt"),
        *("--resume-args", "--resume {checkpoint}", "--", *command),
    )
    if "Error #15" not in gone_on.stderr:
        pytest.skip("the linker gave both libraries one runtime here")
    assert gone_on.returncode == 0, gone_on.stderr
    assert "openmp-duplicate-runtime" in gone_on.stderr
    assert "applied: one-openmp-runtime (safe" in gone_on.stderr
    assert "resumed from out/step-15.pt" in gone_on.stdout
    assert gone_on.stdout.splitlines()[-1] == whole  # every weight, to the last bit

    verified = call(
        tmp_path,
        *rerail,
        "verify",
        "--yes",
        "--json",
        "--with",
        "one-openmp-runtime",
        "--",
        *command,
    )
    assert verified.returncode == 0, verified.stderr
    document = json.loads(verified.stdout)
    assert document["status"] == "proven"
    assert document["failure"]["cause"] == "openmp-duplicate-runtime"
    assert document["cost"]["loss"]["differs_from_step"] is None
