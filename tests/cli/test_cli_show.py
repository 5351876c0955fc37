"""`rerail show` of real runs: live, over, and lost with their recorder."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.cli import main
from rerail.records import Outcome
from rerail.store import Store

WAITING = """
import sys
print("step 1 loss 0.5", flush=True)
open(sys.argv[1]).read()
print("done", flush=True)
"""


def until(condition: Callable[[], Any], seconds: float = 180.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".rerail"


class LiveRun:
    """A recorded program that waits on a FIFO until it may end."""

    def __init__(self, home: Path, tmp_path: Path) -> None:
        self.fifo = tmp_path / "go"
        os.mkfifo(self.fifo)
        self.recorder = subprocess.Popen(
            [sys.executable, "-m", "rerail", "run", "--home", str(home), "--",
             sys.executable, "-c", WAITING, str(self.fifo)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.store = Store(home)
        self.has_ended = False
        until(lambda: b"step 1" in self.printed() and self.store.resolve("last").processes())
        self.folder = self.store.resolve("last")

    def printed(self) -> bytes:
        try:
            return b"\n".join(line.text for line in self.store.resolve("last").output())
        except Exception:
            return b""  # it has only begun

    def let_go(self) -> bool:
        try:
            descriptor = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False  # the program has printed its line and not yet opened the FIFO
        os.close(descriptor)
        return True

    def end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            until(self.let_go)
            self.recorder.communicate(timeout=180)


@pytest.fixture
def live_run(home: Path, tmp_path: Path) -> Iterator[LiveRun]:
    run = LiveRun(home, tmp_path)
    try:
        yield run
    finally:
        run.end()


def test_a_live_run_and_its_end(live_run: LiveRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "running for" in lines[0]
    assert any("step 1 loss 0.5" in line for line in lines)
    assert any(line.startswith("main") and line.endswith("running") for line in lines)
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)

    follower = subprocess.Popen(
        [sys.executable, "-m", "rerail", "show", "--follow", "--json", live_run.folder.id],
        stdout=subprocess.PIPE,
    )
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["state"] == "running"
    live_run.end()
    told, _ = follower.communicate(timeout=180)
    assert json.loads(told.splitlines()[-1])["state"] == "ended"
    assert follower.returncode == 0
    assert main(["show", "last"]) == 0
    text = capsys.readouterr().out
    assert "done" in text
    assert "ended well" in text


def test_following_without_a_terminal_prints_lines_then_the_end(
    live_run: LiveRun,
) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "rerail", "show", "--follow"], stdout=subprocess.PIPE
    )
    assert follower.stdout is not None
    assert b"running for" in follower.stdout.readline()
    live_run.end()
    told, _ = follower.communicate(timeout=180)
    assert b"done" in told
    assert follower.returncode == 0


def test_following_on_a_terminal_redraws_and_leaves_the_last_screen(live_run: LiveRun) -> None:
    follower, terminal = pty.fork()
    if follower == 0:
        os.execv(sys.executable, [sys.executable, "-m", "rerail", "show", "--follow"])
    try:
        seen = b""
        while b"running for" not in seen:
            seen += os.read(terminal, 65536)
        live_run.end()
        seen = b"".join(iter(lambda: _read_until_closed(terminal), b""))
    finally:
        _, status = os.waitpid(follower, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    after_the_screen = seen.rpartition(b"\x1b[?1049l")[2]
    assert b"done" in after_the_screen
    assert b"ended well" in after_the_screen


def _read_until_closed(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # how Linux says that the other end of a terminal is closed


def test_a_run_whose_recorder_was_killed_can_be_shown(
    live_run: LiveRun, capsys: pytest.CaptureFixture[str]
) -> None:
    live_run.recorder.send_signal(signal.SIGKILL)
    live_run.recorder.wait(timeout=180)
    assert main(["show", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["state"] in ("running", "lost")  # running: a guardian goes on with it
    assert document["output"] == ["step 1 loss 0.5"]


def test_json_is_one_document_with_a_schema(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Store(home).create_run(["python", "train.py"], "/data", {}, False)
    writer.output(b"\x1b[1mbold\x1b[0m\n", "stdout", 0.1)
    writer.finish(Outcome("exit", "exit 3", None, 3), 2.0)
    assert main(["show", writer.id, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["headline"] == "exit 3"
    assert document["is_bad"] is True
    assert document["output"] == ["bold"]


def test_a_lost_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Store(home).create_run(["python", "train.py"], "/data", {}, False)
    writer.event("note", t_seconds=75.0, text="x")
    writer.update_info(recorder_pid=2**22 + 1)
    writer.close()
    assert main(["show"]) == 0
    assert "lost: its recorder was killed; last seen after 1 min 15 s" in capsys.readouterr().out


def test_an_unknown_run_says_what_there_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Store(home).create_run(["x"], "/", {}, False)
    assert main(["show", "nonesuch"]) == 2
    assert writer.id in capsys.readouterr().err


def test_an_unreadable_run_is_no_traceback(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Store(home).create_run(["x"], "/", {}, False)
    (writer.path / "run.json").write_text('{"schema": 99}')
    assert main(["show"]) == 2
    assert "schema 99, and this rerail reads schema 1" in capsys.readouterr().err
