"""The examples of docs/python.md do what the page says, in a fresh interpreter and folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="the page's examples of vitals use pandas")
    environ = {name: value for name, value in os.environ.items() if name != "RERAIL_HOME"}
    code = (
        "import doctest, sys\n"
        f"result = doctest.testfile({str(PAGE)!r}, module_relative=False, encoding='utf-8')\n"
        "assert result.attempted > 20\n"
        "sys.exit(result.failed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
