"""Small data, and the program as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 pairs of width 64: an epoch of it takes a second."""
    from twotower.synthetic import write_synthetic

    folder = tmp_path_factory.mktemp("twotower-data")
    write_synthetic(folder, rows=320, length=5, bank_rows=1500, val_rows=40, dimension=64)
    return folder


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For child processes: the package, one compile cache, and nothing that hides Error #15."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("KMP_", "LD_PRELOAD"))}
    cache = tmp_path_factory.getbasetemp() / "twotower-cache"
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def twotower(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "twotower", *map(str, arguments)],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
