"""`rerail stacks`: where a live run is, and where a dead one was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rerail import cli

RERAIL = [sys.executable, "-m", "rerail"]
HANGS = """
import threading
lock = threading.Lock()
def save():
    print("about to wait", flush=True)
    lock.acquire()
lock.acquire()
save()
"""
DIES = """
import ctypes
def load():
    ctypes.string_at(0)
load()
"""


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["stacks", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="stacks are read from /proc")
def test_a_live_run_is_looked_at_without_ending_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(HANGS)
    command = [*RERAIL, "run", "--home", str(tmp_path), "--stall", "600", "--"]
    run = subprocess.Popen(
        [*command, sys.executable, str(tmp_path / "train.py")], stdout=subprocess.PIPE
    )
    try:
        assert run.stdout is not None and run.stdout.readline() == b"about to wait\n"
        deadline = time.monotonic() + 180
        out = ""
        while "train.py:6 save" not in out and time.monotonic() < deadline:
            _, out, _ = asked(capsys, "last", "--home", str(tmp_path))
        assert "> train.py:6 save()" in out
        assert all(len(line) <= 80 for line in out.splitlines())
        status, out, _ = asked(capsys, "last", "--home", str(tmp_path), "--json")
        document = json.loads(out)
        (process, *_) = document["processes"]
        assert status == 0 and document["taken"] == "now"
        assert process["threads"][0]["python"][0]["is_own"]
        status, _, err = asked(capsys, "last", "--home", str(tmp_path), "--pid", "1")
        assert status == 2 and "is no process of" in err
        assert run.poll() is None
    finally:
        run.terminate()
        run.wait(180)


def test_of_a_crash_the_crashed_stack_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(DIES)
    command = [*RERAIL, "run", "--home", str(tmp_path), "--quiet", "--"]
    subprocess.run([*command, sys.executable, str(tmp_path / "train.py")], timeout=180)
    status, out, _ = asked(capsys, "last", "--home", str(tmp_path))
    assert status == 0 and "SIGSEGV" in out and "> train.py:4 load()" in out


def test_a_run_without_stacks_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run([*RERAIL, "run", "--home", str(tmp_path), "-q", "--", "true"], timeout=180)
    status, _, err = asked(capsys, "last", "--home", str(tmp_path))
    assert status == 1 and "no stacks were taken" in err
