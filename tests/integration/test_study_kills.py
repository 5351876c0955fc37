"""A study that is killed at any moment goes on, and ends with what it would have made."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rerail.store import Store, liveness
from rerail.study import load_study, run_study

PROGRAMS = Path(__file__).parents[1] / "programs"
ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 180.0
STUDY = """
command = "{command}"
artifacts = ["weights/final.npz", "metrics.json"]
[axes]
"--lr" = [0.1, 0.2]
[resume]
checkpoint = "weights/checkpoint.json"
"""
# What differs from one start to the next by nature.
BOOKKEEPING = {"journal.jsonl", "lock", "rerail-cell.json", "report.html", "table.csv"}


def write_study(folder: Path, *more: str) -> Path:
    folder.mkdir(exist_ok=True)
    command = shlex.join([sys.executable, str(PROGRAMS / "study_train.py"), *more])
    (folder / "s.toml").write_text(STUDY.format(command=command))
    return folder / "s.toml"


def contents(path: Path) -> dict[str, str]:
    folder = path.parent / "s.study"
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in BOOKKEEPING
    }


def finish(path: Path) -> dict[str, list[str]]:
    """Start it (again); the verdicts of each cell's attempts."""
    states = run_study(load_study(path), Store(path.parent / "home"))
    assert {state.state for state in states.values()} == {"done"}
    return {name: [a.verdict for a in state.attempts] for name, state in states.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = write_study(tmp_path_factory.mktemp("undisturbed"))
    finish(path)
    return contents(path)


def killed_at(step: int, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            str(PROGRAMS / "study_killed_at.py"),
            str(step),
            str(path),
            str(path.parent / "home"),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def check_killed_at(step: int, folder: Path, undisturbed: dict[str, str]) -> None:
    path = write_study(folder)
    done = killed_at(step, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for verdicts in finish(path).values():
        assert verdicts[-1] == "ok" and "died" not in verdicts
        assert verdicts.count("ok") == 1, "what ended well is not run again"
    assert contents(path) == undisturbed


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 5, 8, 10, 13, 15, 17, 18, 24])
def test_killed_at_some_moments(step: int, tmp_path: Path, undisturbed: dict[str, str]) -> None:
    check_killed_at(step, tmp_path, undisturbed)


@pytest.mark.slow
def test_killed_at_every_moment(tmp_path: Path, undisturbed: dict[str, str]) -> None:
    path = write_study(tmp_path / "counted")
    steps, all_done = killed_at(10**9, path).stdout.split()
    assert all_done == "True"
    for step in range(1, int(steps) + 1):
        check_killed_at(step, tmp_path / str(step), undisturbed)


def wait_for(text: str, path: Path) -> str:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, f"{text} never came"
        time.sleep(0.02)
    return next(line for line in path.read_text().splitlines() if text in line)


def wait_for_step(step: int, checkpoint: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not checkpoint.exists() or json.loads(checkpoint.read_text())["step"] < step:
        assert time.monotonic() < deadline, f"step {step} never came"
        time.sleep(0.02)


def start(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rerail", "study", str(path), "--quiet"],
        env={**os.environ, "RERAIL_HOME": str(path.parent / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_cell_in_the_middle_goes_on_from_its_checkpoint(
    number: signal.Signals, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    started = tmp_path / "started"
    path = write_study(tmp_path, "--step-seconds", "0.1", "--started", str(started))
    study = start(path)
    pid = int(wait_for("lr=0.1", started).split()[1])
    wait_for_step(3, tmp_path / "s.study" / "work" / "lr=0.1" / "weights" / "checkpoint.json")
    study.send_signal(number)
    assert study.wait(DEADLINE_SECONDS) == (130 if number != signal.SIGKILL else -9)
    verdicts = finish(path)
    assert verdicts["lr=0.1"] == ["interrupted", "ok"] and verdicts["lr=0.2"] == ["ok"]
    assert contents(path) == undisturbed
    assert not liveness.has_process(pid, 0)
    runs = Store(tmp_path / "home").list()
    assert len(runs) == 3, "the interrupted one, and one for each cell"


@pytest.mark.thorough
def test_an_orphan_that_nobody_records_does_not_write_into_the_next_attempt(
    tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    """The study, the recorder and its guardian are killed; the cell lives on."""
    started = tmp_path / "started"
    path = write_study(tmp_path, "--step-seconds", "0.05", "--started", str(started))
    study = start(path)
    cell = int(wait_for("lr=0.1", started).split()[1])
    above = int(Path(f"/proc/{cell}/stat").read_text().rsplit(")", 1)[1].split()[1])
    guardians = [
        int(pid) for pid in Path(f"/proc/{above}/task/{above}/children").read_text().split()
    ]
    for pid in (study.pid, above, *(pid for pid in guardians if pid != cell)):
        os.kill(pid, signal.SIGKILL)
    study.wait(DEADLINE_SECONDS)
    assert liveness.has_process(cell, 0)
    assert finish(path)["lr=0.1"] == ["interrupted", "ok"]
    assert not liveness.has_process(cell, 0)
    assert contents(path) == undisturbed


GRACEFUL = """
import os, signal, sys, time
def leave(number, frame):
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
with open("weights.json", "w") as file:
    file.write("[1]")
with open(sys.argv[1], "a") as file:
    file.write("started\\n")
if len(open(sys.argv[1]).readlines()) == 1:
    time.sleep(1000)
"""


def test_who_ends_well_because_it_was_told_to_has_not_finished(tmp_path: Path) -> None:
    """Exit code 0 and whole files, but only because the study's death ended it."""
    (tmp_path / "train.py").write_text(GRACEFUL)
    path = tmp_path / "s.toml"
    command = shlex.join([sys.executable, str(tmp_path / "train.py"), str(tmp_path / "started")])
    path.write_text(f'command = "{command}"\nartifacts = ["weights.json"]\n')
    study = start(path)
    wait_for("started", tmp_path / "started")
    study.kill()
    study.wait(DEADLINE_SECONDS)
    (verdicts,) = finish(path).values()
    assert verdicts == ["interrupted", "ok"]
    assert len((tmp_path / "started").read_text().splitlines()) == 2


@pytest.mark.thorough
def test_a_killed_cell_is_tried_again_and_the_study_goes_on(
    tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    started = tmp_path / "started"
    path = write_study(tmp_path, "--step-seconds", "0.05", "--started", str(started))
    study = start(path)
    os.kill(int(wait_for("lr=0.1", started).split()[1]), signal.SIGKILL)
    assert study.wait(DEADLINE_SECONDS) == 0
    assert contents(path) == undisturbed


@pytest.mark.thorough
def test_two_studies_do_not_work_on_one_folder(tmp_path: Path) -> None:
    started = tmp_path / "started"
    path = write_study(tmp_path, "--step-seconds", "0.05", "--started", str(started))
    study = start(path)
    wait_for("lr=0.1", started)
    second = start(path)
    assert second.wait(DEADLINE_SECONDS) == 2
    assert study.wait(DEADLINE_SECONDS) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_forty_kills_lose_nothing(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.study_faults", "--json", "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    result = json.loads(done.stdout)
    assert done.returncode == 0, result
    assert result["equal"] == result["artifacts"] == 16
