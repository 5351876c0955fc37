"""A check that is ended by a signal: real processes; nothing of the dry run stays behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from preflight_processes import is_alive

from rerail.preflight.memory.stopping import Stop, Stopped

PROGRAM = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("new-file.txt", "w") as file:
    file.write("made by the dry run")
with open(sys.argv[1], "w") as ready:
    ready.write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_dry_run_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    scratch, place, ready = tmp_path / "scratch", tmp_path / "place", tmp_path / "ready"
    scratch.mkdir()
    place.mkdir()
    os.mkfifo(ready)
    words = [sys.executable, "-m", "rerail", "check", "--json", "--"]
    checking = subprocess.Popen(
        [*words, sys.executable, "-c", PROGRAM, str(ready)],
        cwd=place,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        started = [int(word) for word in ready.read_text().split()]
        assert any(path.name.startswith("rerail-check-") for path in scratch.iterdir())
        checking.send_signal(number)
        out, said = checking.communicate(timeout=240)
    finally:
        checking.kill()
    assert checking.returncode == -number
    assert out == ""
    assert signal.Signals(number).name in said and "nothing of the dry run is left" in said
    assert "Traceback" not in said
    assert not any(path.name.startswith("rerail-check-") for path in scratch.iterdir())
    assert list(place.iterdir()) == []
    assert not any(is_alive(pid) for pid in started)


def test_what_a_killed_check_left_is_removed_by_a_later_one(tmp_path: Path) -> None:
    left, held, young = (tmp_path / f"rerail-check-{name}" for name in ("left", "held", "young"))
    for folder in (left, held, young):
        (folder / "home").mkdir(parents=True)
        (folder / "in-use").touch()
        if folder is not young:
            os.utime(folder, (0, 0))
    with (held / "in-use").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        subprocess.run(
            [sys.executable, "-m", "rerail", "check", "--json", "--", sys.executable, "-c", "0"],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            timeout=240,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == [held.name, young.name]


def test_while_held_a_signal_waits_and_only_the_first_counts() -> None:
    said: list[int] = []
    stop = Stop(said.append)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped) as caught, stop.listening(), stop.held():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("what the dry run itself failed of is not the answer then")
    assert caught.value.signal_number == signal.SIGTERM and said == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop().listening():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
