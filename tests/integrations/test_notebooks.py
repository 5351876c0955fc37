"""Notebooks in a real kernel: recorded from a cell on, killed by a cell, explained afterwards."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail.api import open_run, runs

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ipykernel", "nbclient", "nbformat")),
    reason="ipykernel and nbclient are not installed: pip install --group trackers",
)
GUARD_SECONDS = 240


def play(folder: Path, *cells: str) -> tuple[list[str], bool]:
    """What each cell printed, and whether the kernel lived."""
    nbformat: Any = importlib.import_module("nbformat")
    nbclient: Any = importlib.import_module("nbclient")
    from nbclient.exceptions import DeadKernelError

    notebook: Any = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
    )
    client = nbclient.NotebookClient(
        notebook,
        timeout=GUARD_SECONDS,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    lived = True
    try:
        client.execute()
    except DeadKernelError:
        lived = False
    texts = [
        "".join(str(out.get("text", "")) for out in cell.get("outputs", []))
        for cell in notebook.cells
    ]
    return texts, lived


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a kernel of this interpreter, whatever is installed elsewhere."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    subprocess.run(
        [sys.executable, "-m", "ipykernel", "install", "--prefix", str(tmp_path / "prefix")],
        check=True,
        capture_output=True,
        timeout=GUARD_SECONDS,
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "prefix" / "share" / "jupyter"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def test_a_cell_that_kills_the_kernel_is_explained(folder: Path) -> None:
    texts, lived = play(
        folder,
        "%load_ext rerail\nweights = [1, 2, 3]",
        "%%rerail\nimport rerail\nfor n in range(5): rerail.step(n, loss=0.5, total=100)",
        "def look(address):\n    import ctypes\n    return ctypes.string_at(address)\n\nlook(0)",
    )
    assert not lived and "records this kernel from here on" in texts[1]
    home = folder / ".rerail"
    (run,) = runs(home=home)
    run = _when_explained(run.id, home)
    assert run.outcome is not None and run.outcome.signal == "SIGSEGV", run.outcome
    assert "look()" in run.headline and "SIGSEGV" in run.headline
    assert run.facts["last_step"] == 4
    texts, lived = play(folder, "%load_ext rerail", "1 + 1")
    assert lived and "the kernel before this one died: " in texts[0]
    assert f"rerail explain {run.id.rpartition('-')[2]}" in texts[0]


def test_on_and_off_in_a_kernel_that_lives(folder: Path) -> None:
    texts, lived = play(
        folder,
        "%load_ext rerail",
        "kept = 41",
        "%rerail on",
        "%rerail on",
        "print(kept + 1)",
        "%rerail off",
        "%rerail on",
        "%rerail sideways",
    )
    assert lived and texts[0] == ""
    assert "records this kernel" in texts[2] and "is recording" in texts[3]
    assert texts[4] == "42\n" and "rerail show" in texts[5]
    assert "restart the kernel" in texts[6] and "%rerail on" in texts[7]
    (run,) = runs(home=folder / ".rerail")
    assert (run.state, run.has_failed, run.label) == ("ended", False, "notebook")


def _when_explained(name: str, home: Path) -> Any:
    """The recorder concludes by itself; wait for its answer, not for a while."""
    folder = open_run(name, home=home).folder
    code = (
        "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(.05)"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(folder / "diagnosis.json")],
        check=True,
        timeout=GUARD_SECONDS,
    )
    return open_run(name, home=home)
