"""Conventions that matter: independent of rerail, offline, nothing unpickled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lowlight"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_nothing_of_rerail_no_pickles_no_downloads(path: Path) -> None:
    text = path.read_text()
    for forbidden in ("rerail", "weights_only=False", "urllib", "requests", "pooch"):
        assert forbidden not in text
    assert len(text.splitlines()) <= 300


def test_training_loads_nothing_that_hides_openmps_error_15(environment: dict[str, str]) -> None:
    # threadpoolctl sets KMP_DUPLICATE_LIB_OK for the whole process.
    code = (
        "import sys, os, lowlight.cli, lowlight.train, skimage.metrics, skimage.exposure;"
        "sys.exit('threadpoolctl' in sys.modules or 'KMP_DUPLICATE_LIB_OK' in os.environ)"
    )
    environ = {k: v for k, v in environment.items() if not k.startswith("KMP_")}
    assert subprocess.run([sys.executable, "-c", code], env=environ, timeout=120).returncode == 0
