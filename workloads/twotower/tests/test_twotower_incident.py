"""The incident's arrangement: two OpenMP runtimes, and the process gone when mining starts."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from twotower.errors import TwotowerError
from twotower.gates import judge
from twotower.native import find_runtime

COMMAND = (
    *("--hidden", 16, "--bs", 8, "--accum", 2, "--steps", 12, "--mine-every", 6, "--no-bar"),
    *("--checkpoint-every", 3, "--log-every", 1, "--device", "cpu"),
)


@pytest.fixture(scope="module", autouse=True)
def two_runtimes() -> tuple[Path, Path]:
    try:
        runtimes = find_runtime("gather"), find_runtime("topk")
    except TwotowerError as error:
        pytest.skip(str(error))
    if runtimes[0] == runtimes[1]:
        pytest.skip("only one OpenMP runtime of clang's kind is installed here")
    return runtimes


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if row["event"] == "step"]


@pytest.mark.thorough
def test_it_dies_mid_epoch_and_each_escape_gives_the_same_run(
    small_data: Path, tmp_path: Path, twotower: Any, two_runtimes: tuple[Path, Path]
) -> None:
    def train(out: str, *more: object, **variables: str) -> Any:
        return twotower("train", "--data", small_data, "--out", out, *COMMAND, *more, **variables)

    both = ("--gather", "native", "--miner", "native")
    died = train("both", *both)
    assert died.returncode == -signal.SIGABRT
    assert "OMP: Error #15" in died.stderr
    assert "Traceback" not in died.stderr
    assert "step 6/12" in died.stdout and "step 7/12" not in died.stdout
    assert (tmp_path / "both" / "checkpoints" / "step-00000006.pt").exists()
    verdict = judge(tmp_path / "both")
    assert (verdict.decision, "died after step 6, while mining (native)" in verdict.why) == (
        "stop",
        True,
    )

    # By a relative name: LD_PRELOAD cannot hold a path with a space in it.
    (tmp_path / "preloaded.so").symlink_to(two_runtimes[1])
    single = {
        "exact": train("exact", "--gather", "native", "--miner", "exact"),
        "preload": train("preload", *both, LD_PRELOAD="./preloaded.so"),
        "linked": train("linked", *both, TWOTOWER_OPENMP=str(two_runtimes[0])),
    }
    for name, result in single.items():
        assert result.returncode == 0, (name, result.stderr)
    assert len({tuple(losses(tmp_path / run)) for run in single}) == 1

    resumed = twotower("train", "--out", "both", "--resume", "--miner", "exact", "--no-bar")
    assert resumed.returncode == 0
    assert losses(tmp_path / "both") == losses(tmp_path / "exact")
