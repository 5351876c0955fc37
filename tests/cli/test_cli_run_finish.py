"""The one line after a run that ended well, for the person at the terminal alone."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rerail.store import Store

STEPS = "for step in range(0, 1879, 2): print(f'step {step} loss {0.97:.2f}')"


def on_terminal(home: Path, *options: str, program: str) -> tuple[str, int]:
    """What a person sees of `rerail run`, and how it ended."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rerail", "run", "--home", str(home), *options]
    try:
        process = subprocess.Popen(
            [*command, "--", sys.executable, "-c", program],
            stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
    seen = b""
    give_up = time.monotonic() + 180
    while time.monotonic() < give_up:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        seen += data
    os.close(ours)
    return seen.decode(), process.wait(timeout=180)


def test_how_long_how_far_and_which_run(tmp_path: Path) -> None:
    seen, status = on_terminal(tmp_path, program=STEPS)
    last = seen.splitlines()[-1]
    short = Store(tmp_path).resolve("last").id.rpartition("-")[2]
    assert status == 0
    assert re.fullmatch(
        rf"rerail: finished after [\d.]+ s, step 1,878, loss 0\.97 · run {short}", last
    )


def test_nothing_is_said_of_steps_where_there_were_none(tmp_path: Path) -> None:
    seen, _ = on_terminal(tmp_path, program="pass")
    (line,) = seen.splitlines()
    assert re.fullmatch(r"rerail: finished after [\d.]+ s · run \w+", line)


@pytest.mark.parametrize(
    ("options", "program"),
    [(["--quiet"], "pass"), (["--no-explain"], "raise SystemExit(3)")],
    ids=["quiet", "it died"],
)
def test_when_it_is_not_said(options: list[str], program: str, tmp_path: Path) -> None:
    seen, _ = on_terminal(tmp_path, *options, program=program)
    assert "finished" not in seen


def test_without_a_terminal_there_is_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(tmp_path), "--", "true"],
        capture_output=True, check=False, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("waits", [["--notify", "sleep 60"], ["--job", "j", "--job-dir", "file/x"]])
def test_ctrl_c_after_the_command_has_ended_leaves_its_exit_status(
    tmp_path: Path, waits: list[str]
) -> None:
    """Whoever is told may be slow, and the place of the job out of reach; that is no failure."""
    (tmp_path / "file").write_text("no folder")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "rerail",
            "run",
            "--home",
            "home",
            *waits,
            "--",
            "sh",
            "-c",
            "exit 3",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "rerail report" in line:  # the last of the answer
            break
    process.send_signal(signal.SIGINT)
    process.stderr.read()
    assert process.wait(180) == 3
