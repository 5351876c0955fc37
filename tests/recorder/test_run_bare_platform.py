"""What is left of `rerail run` where there is no /proc, no subreaper and no news of processes.

As on macOS: the death of the command itself is still named, and a run is brought back.
RERAIL_PLATFORM=bare hides those three from the recorder; an empty /proc hides them from the agent
and from psutil as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_driver import PROGRAMS, RERAIL

from rerail.diagnosis import explain_run
from rerail.store import Store

BARE = {"RERAIL_PLATFORM": "bare"}
DIES = """
import ctypes
def train():
    ctypes.string_at(8)
train()
"""


def run(
    home: Path, *words: str, before: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *RERAIL, "run", "--home", str(home), *words],
        env={**os.environ, **(BARE if environ is None else environ)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def missing(home: Path) -> dict[str, str]:
    """What the only run in `home` says it lacks."""
    (events,) = home.glob("runs/*/events.jsonl")
    found = [json.loads(line) for line in events.read_text().splitlines()]
    return {each["what"]: each["why"] for each in found if each["kind"] == "missing"}


def answer(home: Path) -> dict[str, Any]:
    """With more time than a person would wait, for a machine under load."""
    return explain_run(Store(home).resolve("last"), seconds=120).to_json()


@pytest.mark.parametrize(
    ("code", "status", "kind", "cause"),
    [
        (DIES, -11, "signal", "native-segfault"),
        ("raise ValueError('no such column: label')", 1, "exit", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "signal", None),
        ("import sys; sys.exit(7)", 7, "exit", None),
    ],
    ids=["segfault", "exception", "killed", "exit"],
)
def test_the_death_of_the_command_is_named(
    tmp_path: Path, code: str, status: int, kind: str, cause: str | None
) -> None:
    done = run(tmp_path, "--no-explain", "--", sys.executable, "-c", code)

    assert done.returncode == status, done.stderr
    document = answer(tmp_path)
    assert document["outcome"]["kind"] == kind
    if cause is not None:
        assert document["causes"][0]["id"] == cause
        assert "train()" in document["headline"]
    assert "no /proc" in missing(tmp_path)["the tree"]
    assert "no subreaper" in missing(tmp_path)["orphans"]


def test_a_run_that_dies_is_brought_back(tmp_path: Path) -> None:
    counts = [sys.executable, str(PROGRAMS / "remedy_counts.py"), "--dies-at", "3", "--each-once"]
    going_on = ["--resume-args", "--resume {checkpoint}", "--backoff", "0"]
    done = run(tmp_path, "--restarts", "2", "--checkpoint", "out/*.ckpt", *going_on, "--", *counts)

    assert done.returncode == 0, done.stderr
    assert "resumed from out/step-2.ckpt" in done.stdout
    assert done.stdout.splitlines()[-1] == "counted"


def test_children_are_not_claimed_to_be_known(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', '0'], check=True)"
    done = run(tmp_path, "--", sys.executable, "-c", code)

    assert done.returncode == 0, done.stderr
    (events,) = tmp_path.glob("runs/*/events.jsonl")
    started = [json.loads(line) for line in events.read_text().splitlines()]
    assert len([each for each in started if each["kind"] == "process-started"]) == 1


def test_with_an_empty_proc(tmp_path: Path, unshare: list[str]) -> None:
    """The agent finds nothing there either, nor does psutil."""
    before = (*unshare, "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    tried = subprocess.run([*before, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"/proc cannot be hidden here: {tried.stderr.strip()}")
    done = run(
        tmp_path, "--no-explain", "--", sys.executable, "-c", DIES, before=before, environ={}
    )

    assert done.returncode == -11, done.stderr
    assert "no /proc" in missing(tmp_path)["the tree"]
    (crash,) = tmp_path.glob("runs/*/agent/*.crash")
    assert b"signal 11 SIGSEGV" in crash.read_bytes() and b"train" in crash.read_bytes()
