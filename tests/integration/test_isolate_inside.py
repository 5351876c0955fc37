"""Changes that are made inside the process: they take effect, and say so, or do not count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from rerail.store import Store

READS = str(Path(__file__).parent.parent / "programs" / "isolate_reads_rows.py")
DIES = str(Path(__file__).parent.parent / "programs" / "isolate_dies.py")


def rerail(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rerail", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env={**os.environ, **environ},
    )


def archive(folder: Path) -> str:
    path = folder / "rows.npz"
    numpy.savez(path, rows=numpy.zeros((50, 2)), few=numpy.zeros(3))
    return str(path)


@pytest.mark.thorough
def test_a_change_inside_the_process_is_confirmed(tmp_path: Path) -> None:
    command = [sys.executable, READS, archive(tmp_path)]
    done = rerail(
        tmp_path,
        *("isolate", "--yes", "--json", "--max-trials", "30"),
        *("--try", "npz-rows=5", "--try", "UNRELATED=1", "--", *command),
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["status"] == "confirmed" and document["changes"] == ["npz-rows=5"], done.stderr


def test_what_was_changed_is_in_the_record(tmp_path: Path) -> None:
    changes = json.dumps({"npz-rows": "5", "without-module": "wave"})
    command = [sys.executable, READS, archive(tmp_path)]
    done = rerail(tmp_path, "run", "--", *command, RERAIL_CHANGES=changes)
    assert done.returncode == 0, done.stderr
    (box,) = Store(tmp_path / ".rerail").resolve("last").boxes()
    assert "change applied: npz-rows=5" in box.notes
    assert "change applied: without-module=wave" in box.notes


@pytest.mark.thorough
def test_a_change_that_never_took_effect_does_not_count(tmp_path: Path) -> None:
    done = rerail(
        tmp_path,
        *("isolate", "--yes", "--json", "--max-trials", "30"),
        *("--try", "without-module=faiss", "--try", "--mode good", "--", sys.executable, DIES),
    )
    document = json.loads(done.stdout)
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]
    assert "without-module=faiss" not in document["ruled_out"]
    assert "take effect" in document["not_applicable"]["without-module=faiss"]


@pytest.mark.slow
def test_the_reproducer_brings_only_the_rows_that_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, READS, archive(tmp_path)]
    done = rerail(
        tmp_path,
        *("isolate", "--yes", "--json", "--max-trials", "30", "--reproducer", "small"),
        *("--try", "without-module=wave", "--", *command),
    )
    made = json.loads(done.stdout)["reproducer"]
    assert made["fails"], done.stderr
    # It dies of more than 10 rows; the search stops within half as many again.
    few = numpy.load(tmp_path / "small" / "data" / "rows.npz")
    assert 10 < len(few["rows"]) <= 16 and len(few["few"]) == 3
    again = subprocess.run(["sh", "small/run.sh"], cwd=tmp_path, capture_output=True, timeout=180)
    assert again.returncode == -signal.SIGSEGV
