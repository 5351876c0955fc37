"""A study on a Ray cluster ends with the same files as one on this machine."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.cli import main

PROGRAM = Path(__file__).parents[1] / "programs" / "study_train.py"


@pytest.fixture
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_cells_run_on_the_cluster_and_a_crash_is_tried_again(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "lr=0.2").write_text("segfault\n")
    command = shlex.join([sys.executable, str(PROGRAM)]) + " --faults {here}/faults"
    (tmp_path / "s.toml").write_text(
        f"command = {json.dumps(command)}\n"
        'artifacts = ["weights/final.npz", "metrics.json"]\n'
        '[axes]\n"--lr" = [0.1, 0.2, 0.3]\n'
    )
    arguments = ["--scheduler", "ray", "--jobs", "2", "--json", "--quiet"]
    home = ["--home", str(tmp_path / "home")]
    assert main(["study", str(tmp_path / "s.toml"), *arguments, *home]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["state"] for cell in cells] == ["done"] * 3
    assert [a["cause"] for a in cells[1]["attempts"]] == ["native-segfault", None]
