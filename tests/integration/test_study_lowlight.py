"""The low-light ablation under real faults: eight finished cells, every death explained."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.study import load_study, read_states
from rerail.study.cells import expand

pytest.importorskip("lowlight")

ROOT = Path(__file__).parents[2]
FAULTY = ROOT / "tests" / "programs" / "study_faulty_lowlight.py"
DEADLINE_SECONDS = 1500.0
# Small enough for a test; what is trained, and how it can fail, is the same.
SMALLER = (
    "--steps 6 --people 2 --crop 32 --width 4 --batch-size 4 --faces 1 --checkpoint-every 2"
    " --pictures {here}/pictures"
)


def write_study(folder: Path) -> Path:
    folder.mkdir()
    (folder / "faults").mkdir()
    _draw_pictures(folder / "pictures")
    text = (ROOT / "studies" / "lowlight.toml").read_text()
    command = shlex.join([sys.executable, str(FAULTY)]) + " {here}/faults train"
    assert "python -m lowlight train" in text and "--steps 200" in text
    text = text.replace("python -m lowlight train", command).replace("--steps 200", SMALLER)
    (folder / "lowlight.toml").write_text(text)
    return folder / "lowlight.toml"


def _draw_pictures(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    image = pytest.importorskip("PIL.Image")
    folder.mkdir()
    draw = numpy.random.default_rng(0)
    for number in range(8):
        pixels = draw.integers(0, 255, (72, 72, 3), dtype=numpy.uint8)
        image.fromarray(pixels).save(folder / f"{number}.png")


def start(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rerail", "study", str(path)],
        env={**os.environ, "RERAIL_HOME": str(path.parent / "home")},
        stdout=(path.parent / "table.txt").open("wb"),
        stderr=(path.parent / "said.txt").open("ab"),
    )


def checksums(path: Path) -> dict[str, str]:
    results = path.parent / "lowlight.study" / "results"
    return {
        str(file.relative_to(results)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(results.rglob("*"))
        if file.is_file() and file.name != "rerail-cell.json"
    }


@pytest.fixture
def memory_group(tmp_path: Path) -> Iterator[Path]:
    """A memory cgroup of a gigabyte, version 1 or 2."""
    name = f"rerail-study-{os.getpid()}"
    for base, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        try:
            (base / name).mkdir()
            (base / name / limit).write_text(str(1 << 30))
        except OSError:
            continue
        yield base / name
        subprocess.run(["rmdir", str(base / name)], check=False)
        return
    pytest.skip("no memory cgroup can be made here")


def wait_until_running(path: Path, cell: str, study: subprocess.Popen[bytes]) -> None:
    checkpoints = path.parent / "lowlight.study" / "work" / cell / "run" / "checkpoints"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not list(checkpoints.glob("step-*.pt")):
        assert time.monotonic() < deadline and study.poll() is None, "it never came so far"
        time.sleep(0.02)


def report(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "study", "report", "--json", str(path)],
        capture_output=True,
        check=False,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.slow
@pytest.mark.torch
def test_eight_cells_finish_under_real_faults(tmp_path: Path, memory_group: Path) -> None:
    quiet = write_study(tmp_path / "quiet")
    assert start(quiet).wait(DEADLINE_SECONDS) == 0
    assert len(checksums(quiet)) == 24

    path = write_study(tmp_path / "faulty")
    names = [cell.name for cell in expand(load_study(path))]
    assert len(names) == 8
    faults = {
        names[0]: "worker-segfault",
        names[1]: "small-shm!",
        names[2]: f"out-of-memory {memory_group}",
    }
    for cell, fault in faults.items():
        (path.parent / "faults" / cell).write_text(fault)
    study = start(path)
    wait_until_running(path, names[4], study)
    study.send_signal(signal.SIGKILL)
    study.wait()
    study = start(path)
    assert study.wait(DEADLINE_SECONDS) == 0, (path.parent / "said.txt").read_text()

    assert checksums(path) == checksums(quiet), "an artifact was lost, misplaced or changed"
    cells = {cell["cell"]: cell for cell in report(path)["cells"]}
    assert {cell["state"] for cell in cells.values()} == {"done"}
    causes = {
        name: [a["cause"] for a in cell["attempts"] if a["verdict"] == "died"]
        for name, cell in cells.items()
    }
    assert causes[names[0]] == ["native-segfault"]
    assert causes[names[1]] == ["shm-exhausted"]
    assert causes[names[2]] == ["host-oom"]
    assert all(causes[name] == [] for name in names[3:])
    assert cells[names[1]]["remedies"] == ["dataloader-workers=0"]
    interrupted = [a["verdict"] for a in cells[names[4]]["attempts"]]
    assert interrupted == ["interrupted", "ok"]
    assert cells[names[4]]["attempts"][1]["resumed_from"].startswith("run/checkpoints/step-")
    table = (path.parent / "table.txt").read_text()
    for cause in ("native-segfault", "shm-exhausted", "host-oom"):
        assert cause in table
    left = sorted(p.name for p in (path.parent / "lowlight.study").iterdir())
    assert left == ["journal.jsonl", "lock", "report.html", "results", "table.csv"]
    assert all(state.state == "done" for state in read_states(load_study(path)).values())
