"""Conventions that matter: independent of rerail, light where lightness is the point."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "twotower"
ALWAYS = {"numpy", "torch", "tqdm", "yaml", "twotower", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_a_module_imports_at_the_top_only_what_is_always_installed(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert {name.split(".")[0] for name in names} <= ALWAYS, f"{path}: line {node.lineno}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_nothing_of_rerail_and_no_pickles(path: Path) -> None:
    text = path.read_text()
    for forbidden in ("import rerail", "from rerail", "allow_pickle=True", "weights_only=False"):
        assert forbidden not in text
    assert len(text.splitlines()) <= 400


def test_training_loads_nothing_that_hides_openmps_error_15(environment: dict[str, str]) -> None:
    # scikit-learn's threadpoolctl sets KMP_DUPLICATE_LIB_OK for the whole process.
    code = (
        "import sys, os, twotower.cli, twotower.train;"
        "sys.exit('threadpoolctl' in sys.modules or 'KMP_DUPLICATE_LIB_OK' in os.environ)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, timeout=120).returncode == 0
    )
