"""`rerail.record`: real commands, recorded by a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rerail
from rerail.errors import NotRecorded, UsageError
from rerail.recorder import CommandNotStarted


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    return tmp_path / ".rerail"


def test_it_is_recorded_from_any_thread(home: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    found: list[rerail.Run] = []

    def work() -> None:
        found.append(rerail.record(["sh", "-c", "echo a; echo b >&2; kill -9 $$"], label="-x"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=240)
    (run,) = found
    assert (run.outcome.kind, run.outcome.signal, run.label) == ("signal", "SIGKILL", "-x")
    assert sorted(run.output().splitlines()) == ["a", "b"]
    assert run.folder.parent.parent == home
    assert [each.id for each in rerail.runs()] == [run.id]
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_command_gets_its_folder_environment_and_no_descriptor_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('not yours')")  # nothing of rerail's
    (folder / "say").write_text('#!/bin/sh\necho "$GREETING $(pwd)"; ls /dev/fd\n')
    (folder / "say").chmod(0o700)
    environ = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    usual = subprocess.run(
        ["./say"], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    run = rerail.record(["./say"], cwd=folder, env=environ, home="store")
    assert run.output() == usual.stdout
    assert run.folder.parent.parent == tmp_path / "store"
    assert run.command == ["./say"]


def test_what_cannot_be_started_is_an_exception(home: Path) -> None:
    with pytest.raises(CommandNotStarted, match="not found"):
        rerail.record(["no-such-program"])
    for wrong in ([], "python train.py"):
        with pytest.raises(UsageError, match="list of words"):
            rerail.record(wrong)
    with pytest.raises(UsageError, match="stall_seconds"):
        rerail.record(["true"], stall_seconds=0)
    with pytest.raises(UsageError, match="on_stall"):
        rerail.record(["true"], on_stall=" ")
    assert not home.exists()


def test_a_recorder_that_fails_leaves_the_command_alone(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "click.py").write_text("raise ImportError('no click')")
    environ = {**os.environ, "PYTHONPATH": str(broken)}
    with pytest.raises(NotRecorded, match="ended with status 7"):
        rerail.record(["sh", "-c", "echo ran > proof; exit 7"], env=environ)
    assert (tmp_path / "proof").read_text() == "ran\n"


def test_a_stalled_command_is_ended_if_asked_for() -> None:
    run = rerail.record(
        [sys.executable, "-c", "import time; time.sleep(600)"], stall_seconds=1, on_stall="kill"
    )
    assert run.outcome.kind == "hang"


def test_an_interrupt_ends_the_command_first(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, rerail\n"
        "try:\n"
        "    rerail.record(['sh', '-c', 'echo ready; exec sleep 600'])\n"
        "except KeyboardInterrupt:\n"
        "    run = rerail.open_run('last')\n"
        "    print(json.dumps([run.state, run.outcome.signal]), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
        said, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert json.loads(said) == ["ended", "SIGINT"]
