"""Signals from outside reach the command once, and the record knows who sent them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from run_driver import DEADLINE_SECONDS, PROGRAMS, Finished, read_line, rerail_run, wait_until

COUNTER = [sys.executable, str(PROGRAMS / "run_count_signals.py")]


def start(home: Path, *command: str, ignored: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """In a process group of its own, as a shell would start it."""

    def prepare() -> None:
        os.setpgrp()  # subprocess can do so itself since Python 3.11
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    started = subprocess.Popen(
        rerail_run(home, *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=prepare,
        bufsize=0,
    )
    assert read_line(started) == b"up\n"
    return started


def finish(started: subprocess.Popen[bytes], home: Path) -> Finished:
    out, _ = started.communicate(timeout=DEADLINE_SECONDS)
    return Finished(started.returncode, out, b"", home)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGALRM"]
)
def test_a_signal_to_the_recorder_reaches_the_command_once(tmp_path: Path, name: str) -> None:
    started = start(tmp_path, *COUNTER)
    started.send_signal(signal.Signals[name])
    assert read_line(started) == name.encode() + b"\n"
    done = finish(started, tmp_path)
    assert done.stdout == b""
    if name != "SIGWINCH":
        (event,) = done.events("signal-forwarded")
        assert event.data["signal"] == name
        assert event.data["sender_pid"] == os.getpid()
        assert event.data["sender_name"] == Path("/proc/self/comm").read_text().strip()


def send_and_wait(started: subprocess.Popen[bytes], send: Any, name: str, home: Path) -> None:
    """One signal; equal ones merge while they wait, so the next comes when this is recorded."""
    so_far = Finished(0, b"", b"", home)
    count = len(so_far.events("signal-forwarded"))
    send(started.pid, signal.Signals[name])
    assert read_line(started) == name.encode() + b"\n"
    wait_until(lambda: len(so_far.events("signal-forwarded")) == count + 1, "the recorder")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_signal_to_the_whole_group_reaches_the_command_once(tmp_path: Path, name: str) -> None:
    started = start(tmp_path, *COUNTER)
    for _ in range(3):
        send_and_wait(started, os.killpg, name, tmp_path)
    assert finish(started, tmp_path).stdout == b"", "a second copy came from the recorder"


def test_alone_after_group_is_told_apart(tmp_path: Path) -> None:
    started = start(tmp_path, *COUNTER)
    for send in (os.killpg, os.kill, os.killpg, os.kill):
        send_and_wait(started, send, "SIGUSR1", tmp_path)
    assert finish(started, tmp_path).stdout == b""


def test_kill_0_of_a_script_ends_the_script_and_not_the_record(tmp_path: Path) -> None:
    started = start(tmp_path, "sh", "-c", "echo up; sleep 60 & kill -TERM 0; wait")
    done = finish(started, tmp_path)
    assert done.status == -signal.SIGTERM
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.signal == "SIGTERM"


def test_a_command_that_ends_of_a_forwarded_signal(tmp_path: Path) -> None:
    started = start(tmp_path, "sh", "-c", "echo up; exec sleep 60")
    started.terminate()
    done = finish(started, tmp_path)
    assert done.status == -signal.SIGTERM
    assert [event.data["signal"] for event in done.events("signal-forwarded")] == ["SIGTERM"]


def test_an_ignored_hang_up_stays_ignored(tmp_path: Path) -> None:
    """nohup rerail run … is as good as rerail run -- nohup …"""
    script = "echo up; read line; exit 6"
    started = start(tmp_path, "sh", "-c", script, ignored=[signal.SIGHUP])
    started.send_signal(signal.SIGHUP)
    assert finish(started, tmp_path).status == 6
