"""The child that closes runs with the program's own interpreter: what it prints, when it hangs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.agent import STUB as AGENT_STUB
from rerail.platform.own_process import own_process
from rerail.records import Outcome, TrackedRun
from rerail.store import RunFolder, Store
from rerail.trackers import closer
from rerail.trackers.closer import _Child

GUARD_SECONDS = 240


def interpreter(folder: Path, script: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return str(path)


def tracked(python: str, folder: Path, run: str = "r") -> TrackedRun:
    return TrackedRun("mlflow", run, "open", python=python, cwd=str(folder))


def test_what_an_interpreter_prints_at_its_start_is_no_answer(tmp_path: Path) -> None:
    """A sitecustomize that says hello kept all runs of all trackers open."""
    python = interpreter(
        tmp_path,
        "cat >/dev/null\necho Welcome\necho 7\n"
        """echo '{"run": "r", "did": "FAILED"}'\nprintf '{"run": "half'\n""",
    )
    with _Child([tracked(python, tmp_path)]) as child:
        assert child.ask({}, GUARD_SECONDS) == [{"run": "r", "did": "FAILED"}]


def test_a_child_that_hangs_is_gone_with_its_closer_and_told_of(tmp_path: Path) -> None:
    """Whatever ends the closer; one that hangs does not take the time of the next."""
    pids = tmp_path / "pids"
    python = interpreter(tmp_path, f"echo $$ >>{pids}\nexec sleep 600\n")
    children = [_Child([tracked(python, tmp_path, run)]) for run in ("a", "b")]
    try:
        for child in children:
            assert child.ask({}, 0.2) == [] and child.trouble == "no answer within 0 s"
    finally:
        for child in children:
            child.__exit__(None, None, None)
    for pid in map(int, pids.read_text().split()):
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_closer_that_is_killed_takes_its_children_along(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    writer = store.create_run(["x"], "/", {}, False)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    python = interpreter(tmp_path, f"echo $$ >{ready}\nexec sleep 600\n")
    line = '{"tracker": "mlflow", "run": "r", "state": "open", "package": ""}\n'
    agent = writer.path / "agent"
    agent.mkdir(exist_ok=True)
    head = f'{{"schema": 1, "python": "{python}", "cwd": "{tmp_path}"}}\n'
    (agent / "1-1.trackers").write_text(head + line)
    writer.finish(Outcome("signal", "SIGKILL", "SIGKILL"), 1.0)
    assert [run.run for run in RunFolder(writer.path).tracked_runs()] == ["r"]
    asked = f'{{"folder": "{writer.path}", "home": "{store.home}"}}'
    process = subprocess.Popen(
        own_process("rerail.trackers.closer"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(asked.encode())
    process.stdin.close()
    pid = int(ready.read_text())  # waits until it is there
    process.send_signal(signal.SIGKILL)
    process.wait(GUARD_SECONDS)
    descriptor = os.pidfd_open(pid) if Path(f"/proc/{pid}").exists() else None
    if descriptor is not None:
        assert select.select([descriptor], [], [], GUARD_SECONDS)[0], "it lives on"


def test_the_program_that_closes_ends_by_itself(tmp_path: Path) -> None:
    """Also where nothing outside bounds it: no answer comes on its standard input."""
    package = tmp_path / "mlflow"
    package.mkdir()
    (package / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    words = [sys.executable, str(closer._STUB), "mlflow", str(tmp_path), str(AGENT_STUB), "1"]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        stdin=subprocess.DEVNULL,
        timeout=GUARD_SECONDS,
    )
    assert done.returncode == -signal.SIGALRM
