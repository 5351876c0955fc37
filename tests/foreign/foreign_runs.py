"""Running a program of tests/foreign under `rerail run`, and what rerail then says of it.

In: a command for the interpreter of .venv-foreign (`make foreign`). Out: how it ended, what it
printed, and the documents of `rerail explain --json` and `rerail show --json`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import RERAIL

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
BIN = ROOT / ".venv-foreign" / "bin"
HANG_GUARD_SECONDS = 240.0

# Nothing is asked of the network, and nothing is left in the user's home.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",  # the sums of a loss must not depend on how many threads made them
}


@dataclass
class Run:
    status: int  # as subprocess has it: negative for a signal
    output: str
    home: Path

    @cached_property
    def answer(self) -> dict[str, Any]:
        return self._ask("explain")

    @cached_property
    def shown(self) -> dict[str, Any]:
        return self._ask("show")

    @property
    def final_loss(self) -> str | None:
        """The last line's, in words that rerail does not take for a loss."""
        found = re.findall(r"ended at (\S+)", self.output)
        return found[-1] if found else None

    def _ask(self, command: str) -> dict[str, Any]:
        words = [*RERAIL, command, "--home", str(self.home), "--json", "last"]
        done = subprocess.run(words, capture_output=True, timeout=HANG_GUARD_SECONDS)
        assert done.returncode in (0, 1), done.stderr.decode()
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document


def need_foreign() -> None:
    if not (BIN / ".ready").exists():
        pytest.skip("the trainers of other people are not installed: make foreign")


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        **ENVIRONMENT,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HF_HOME": str(folder / "hf"),
    }


def recorded(folder: Path, *command: str, options: Sequence[str] = ()) -> list[str]:
    return [*RERAIL, "run", "--home", str(folder / "home"), *options, "--", *command]


def run(folder: Path, words: Sequence[str]) -> Run:
    """Output and errors go into one file: a pipe would stay open with the last grandchild."""
    log = folder / "printed.txt"
    with log.open("wb") as stream:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=HANG_GUARD_SECONDS,
        )
    return Run(done.returncode, log.read_text(errors="replace"), folder / "home")


def line_of(program: str, marker: str) -> int:
    """Where a program says that it dies of this."""
    lines = (PROGRAMS / program).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# dies: {marker}")]
    return number


def write_rows(path: Path) -> Path:
    """The file of rows that lightning_train.py reads: numpy writes it, with a fixed seed."""
    script = (
        "import sys, numpy; generator = numpy.random.default_rng(1);"
        "inputs = generator.normal(size=(64, 8)).astype('f4');"
        "targets = (inputs @ generator.normal(size=(8, 1))).astype('f4');"
        "numpy.savez(sys.argv[1], inputs=inputs, targets=targets)"
    )
    subprocess.run([str(BIN / "python"), "-c", script, str(path)], check=True)
    return path


def write_notebook(path: Path) -> Path:
    """programs/notebook.py as the notebook that it stands for."""
    blocks = re.split(r"^# %%(.*)\n", (PROGRAMS / "notebook.py").read_text(), flags=re.M)[1:]
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "execution_count": None,
            "outputs": [],
            "metadata": {"tags": title.split()},
            "source": source.strip("\n"),
        }
        for number, (title, source) in enumerate(zip(blocks[::2], blocks[1::2], strict=True))
    ]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(document))
    return path
