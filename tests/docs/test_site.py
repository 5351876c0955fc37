"""The site builds without a warning, and fetches nothing while it is read."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT

OWN = ROOT / ".venv-docs" / "bin" / "python"


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """mkdocs checks links and anchors, the hook what a page would fetch."""
    if OWN.exists():
        python = str(OWN)
    elif importlib.util.find_spec("material") is not None:
        python = sys.executable
    else:
        pytest.skip("mkdocs-material is not installed (`make docs` installs it into .venv-docs)")
    done = subprocess.run(
        [
            python,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "site" / "quick-start.html").is_file()


@pytest.mark.parametrize("name", ["death.svg", "page.png", "watch.png"])
def test_a_picture_is_small_and_whole(name: str) -> None:
    picture = (ROOT / "docs" / "pictures" / name).read_bytes()
    assert 5_000 < len(picture) < 300_000
    assert b"http" not in picture.replace(b"http://www.w3.org/", b"").replace(
        b"https://www.textualize.io", b""
    )
