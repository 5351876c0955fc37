"""Small settings, one face encoder for all tests, and the program as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# A step of it takes 20 ms, the face encoder apart.
SMALL: dict[str, Any] = {
    "width": 4,
    "crop": 16,
    "batch_size": 4,
    "faces": 2,
    "people": 2,
    "face_weight": 0.5,
    "steps": 12,
    "checkpoint_every": 5,
    "threads": 0,
    "cpu_threads": 1,
    "device": "cpu",
}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The face encoder takes seconds to train: all test processes share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return shared / "lowlight-cache"


@pytest.fixture(scope="session")
def small(cache: Path) -> dict[str, Any]:
    return {**SMALL, "cache": str(cache)}


@pytest.fixture(scope="session")
def small_flags(small: dict[str, Any]) -> list[str]:
    return [
        part
        for name, value in small.items()
        for part in ("--" + name.replace("_", "-"), str(value))
    ]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def lowlight(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lowlight", *map(str, arguments)],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
