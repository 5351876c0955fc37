"""`rerail run --restarts` on commands that really die."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
COUNTS = [sys.executable, str(PROGRAMS / "remedy_counts.py")]
TRAINS = [sys.executable, str(PROGRAMS / "remedy_trains.py")]
RUN = [sys.executable, "-m", "rerail", "run", "--home", "home"]
GOING_ON = ["--resume-args", "--resume {checkpoint}", "--backoff", "0"]


def run(
    folder: Path, *arguments: str, restarts: int = 3, seconds: float = 180.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "--restarts", str(restarts), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )


def count(folder: Path, *arguments: str, restarts: int = 3) -> subprocess.CompletedProcess[str]:
    checkpoint = ["--checkpoint", "out/*.ckpt"]
    return run(folder, *checkpoint, *GOING_ON, "--", *COUNTS, *arguments, restarts=restarts)


def runs(folder: Path) -> list[dict[str, Any]]:
    """run.json of every run, oldest first."""
    paths = sorted((folder / "home" / "runs").glob("*/run.json"))
    found = [json.loads(path.read_text()) for path in paths]
    return sorted(found, key=lambda info: info["started_unix"])


@pytest.mark.thorough
@pytest.mark.torch
def test_a_training_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    whole = subprocess.run(
        [*TRAINS, "--out", "whole"], capture_output=True, text=True, timeout=180, cwd=tmp_path
    )
    done = run(
        tmp_path,
        *("--checkpoint", "out/*.pt", *GOING_ON, "--"),
        *(*TRAINS, "--dies-at", "23", "--torn", "20"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    assert "resumed from out/step-15.pt" in done.stdout
    assert "out/step-20.pt is passed over" in done.stderr  # the torn one is named
    first, second = runs(tmp_path)
    assert first["settings"]["attempt"] == 1 and first["outcome"]["signal"] == "SIGSEGV"
    settings = second["settings"]
    assert settings["attempt"] == 2 and settings["previous_run"] == first["id"]
    assert settings["resumed_from"] == "out/step-15.pt"
    assert "out/step-20.pt" in settings["skipped_checkpoints"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"step-{step}.pt" for step in range(5, 31, 5)} <= names


def test_each_death_is_followed_by_an_attempt_from_where_it_was(tmp_path: Path) -> None:
    done = count(tmp_path, "--dies-at", "3", "6", "--each-once")
    assert done.returncode == 0, done.stderr
    assert "resumed from out/step-2.ckpt" in done.stdout
    assert "resumed from out/step-5.ckpt" in done.stdout
    assert done.stdout.splitlines()[-1] == "counted"
    infos = runs(tmp_path)
    assert [info["settings"]["attempt"] for info in infos] == [1, 2, 3]
    assert [info["settings"].get("previous_run") for info in infos] == [
        None,
        infos[0]["id"],
        infos[1]["id"],
    ]
    assert all(info["settings"]["story"] == infos[0]["id"] for info in infos[1:])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "attempts"),
    [
        (["--every", "3", "--dies-at", "6"], 2),  # at step 6 both times
        (["--every", "1", "--dies-at", "6"], 3),  # right after a checkpoint: no step, twice
    ],
)
def test_a_failure_that_would_only_come_back_is_not_tried_again(
    arguments: list[str], attempts: int, tmp_path: Path
) -> None:
    done = count(tmp_path, *arguments, restarts=5)
    assert done.returncode == -signal.SIGSEGV
    assert len(runs(tmp_path)) == attempts
    assert "not started again" in done.stderr and "same place" in done.stderr


def test_an_error_of_the_program_is_not_tried_again_at_all(tmp_path: Path) -> None:
    done = count(tmp_path, "--dies-at", "2", "--how", "shapes")
    assert done.returncode == 1
    assert len(runs(tmp_path)) == 1
    assert "shape-mismatch comes back every time" in done.stderr


def test_the_end_is_that_of_the_last_attempt(tmp_path: Path) -> None:
    done = count(tmp_path, "--dies-at", "2", "4", "6", "--how", "exit", restarts=1)
    assert done.returncode == 7
    assert len(runs(tmp_path)) == 2
    assert "used up" in done.stderr


def test_what_ends_well_is_not_started_again(tmp_path: Path) -> None:
    done = count(tmp_path)
    assert done.returncode == 0 and len(runs(tmp_path)) == 1
    assert "attempt" not in done.stderr


def test_a_checkpoint_from_before_is_taken_and_said(tmp_path: Path) -> None:
    count(tmp_path, "--steps", "3")
    for step in (1, 2, 3):
        os.utime(tmp_path / "out" / f"step-{step}.ckpt", (1e9 + step, 1e9 + step))
    done = count(tmp_path, "--dies-at", "1", "--each-once")
    assert done.returncode == 0, done.stderr
    assert "goes on from out/step-3.ckpt" in done.stderr
    assert "out/step-3.ckpt was there before this run began" in done.stderr


def test_standard_input_is_there_for_every_attempt(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.stdin.read(), end=''); os.path.exists('x') and sys.exit()"
    program += "; open('x', 'w').close(); sys.exit(3)"
    (tmp_path / "in").write_text("first line\n")
    with (tmp_path / "in").open() as file:
        done = subprocess.run(
            [*RUN, "--restarts", "1", "--backoff", "0", "--", sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=180,
            cwd=tmp_path,
            stdin=file,
        )
    assert done.returncode == 0
    assert done.stdout == "first line\nfirst line\n"


def test_without_a_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    done = run(
        tmp_path, "--backoff", "0", "--", *COUNTS, "--dies-at", "3", "--each-once", restarts=1
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step 1/8") == 2


def test_a_malicious_checkpoint_is_neither_executed_nor_chosen(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/executed",)

    (tmp_path / "out").mkdir()
    evil = tmp_path / "out" / "step-9.ckpt"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps(Evil(), protocol=2))
    os.utime(evil, (4e9, 4e9))  # the newest of all
    done = count(tmp_path, "--dies-at", "3", "--each-once")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists()
    assert "step-9.ckpt is passed over" in done.stderr
    assert "resumed from out/step-2.ckpt" in done.stdout
    assert evil.exists()


def test_a_checkpoint_that_the_program_refuses_is_not_taken_twice(tmp_path: Path) -> None:
    done = count(tmp_path, "--dies-at", "4", "--each-once", "--refuses", "step-3")
    assert done.returncode == 0, done.stderr
    assert "step-3.ckpt is passed over: the program could not load it" in done.stderr
    assert "resumed from out/step-2.ckpt" in done.stdout


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RUN, "--restarts", "3", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    )


def wait_for(stream: IO[str] | None, words: str) -> None:
    assert stream is not None
    for line in stream:
        if words in line:
            return
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_somebody_stops_stays_stopped(number: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path, "--", *COUNTS, "--dies-at", "3", "--how", "wait")
    wait_for(process.stdout, "waiting")
    process.send_signal(number)
    _, err = process.communicate(timeout=180)
    assert "stopped from outside" in err
    assert len(runs(tmp_path)) == 1
    assert process.returncode in (-number, 128 + number, 1)


def test_a_kill_by_nobody_knows_whom_is_started_again(tmp_path: Path) -> None:
    """No person's terminal, no scheduler's word, no sender: the commonest death of all."""
    waits = ["--dies-at", "3", "--how", "wait"]
    process = start(tmp_path, "--restarts", "1", "--backoff", "0", "--", *COUNTS, *waits)
    for number in (1, 2):
        wait_for(process.stdout, "waiting")
        assert len(runs(tmp_path)) == number
        os.kill(runs(tmp_path)[-1]["root_pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=180)
    assert process.returncode == -signal.SIGKILL
    assert "the one restart is used up" in err and "stopped from outside" not in err


def test_a_kill_where_a_person_has_a_terminal_stays_a_kill(tmp_path: Path) -> None:
    leader, terminal = os.openpty()
    process = subprocess.Popen(
        [*RUN, "--restarts", "1", "--", *COUNTS, "--dies-at", "3", "--how", "wait"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
    )
    os.close(terminal)
    with os.fdopen(leader, "rb", buffering=0) as screen:
        shown = b""
        while b"waiting" not in shown:
            shown += screen.read(4096)
        os.kill(runs(tmp_path)[-1]["root_pid"], signal.SIGKILL)
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            while more := screen.read(4096):
                shown += more
    assert process.wait(timeout=180) != 0
    assert b"somebody had a terminal open on it" in b" ".join(shown.split())
    assert len(runs(tmp_path)) == 1


def test_a_signal_between_two_attempts_ends_it(tmp_path: Path) -> None:
    process = start(tmp_path, "--backoff", "300", "--", *COUNTS, "--dies-at", "3", "--how", "exit")
    wait_for(process.stderr, "it starts in 300 s")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 7
    assert len(runs(tmp_path)) == 1


def test_json_is_the_only_thing_on_standard_output(tmp_path: Path) -> None:
    checkpoint = ["--checkpoint", "out/*.ckpt"]
    died = ["--dies-at", "3", "--each-once"]
    done = run(tmp_path, "--json", *checkpoint, *GOING_ON, "--", *COUNTS, *died)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["outcome"]["kind"] == "ok"
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["signal", "ok"]
    assert document["attempts"][1]["resumed_from"] == "out/step-2.ckpt"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--restarts", "0", "--checkpoint", "*.pt", "--", "true"], "--restarts 3"),
        (["--checkpoint", "*.pt", "--", "true"], "needs --resume-args"),
        (["--resume-args", "--resume {checkpoint}", "--", "true"], "needs --checkpoint"),
        (["--checkpoint", "*", "--resume-args", "'", "--", "true"], "cannot be read"),
        (
            ["--checkpoint", "*", "--resume-args", "--r {checkpoint}", "--", "sh", "-c", "true"],
            "sh",
        ),
        (["--allow", "everything", "--", "true"], "everything"),
    ],
)
def test_wrong_usage_is_a_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "home" / "runs").exists()
