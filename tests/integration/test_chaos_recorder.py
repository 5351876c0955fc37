"""Whatever happens to the recorder or its disk, the command's own result stays the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import (
    DEADLINE_SECONDS,
    PROGRAMS,
    Finished,
    is_alive,
    python,
    read_line,
    read_rest,
    rerail_run,
    run_recorded,
    wait_until,
)

from rerail.recorder.run.splicing import PIPE_BYTES
from rerail.store import RunFolder, Store

NUMBERS = [sys.executable, str(PROGRAMS / "run_print_numbers.py")]


def start(home: Path, *command: str) -> tuple[subprocess.Popen[bytes], RunFolder]:
    started = subprocess.Popen(
        rerail_run(home, *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert read_line(started) == b"up\n"
    return started, Store(home).resolve("last")


def guardian_of(recorder: int) -> int:
    for child in Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text().strip() == "rerail-guardian":
            return int(child)
    raise AssertionError(f"{recorder} has no guardian")


def numbers(count: int) -> bytes:
    return b"".join(b"%d\n" % n for n in range(count))


def alike_from_the_start(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [0, 3])
def test_a_killed_recorder_loses_no_byte_and_the_ending_is_recorded(
    tmp_path: Path, ending: int
) -> None:
    started, folder = start(tmp_path, *NUMBERS, "100000", str(ending))
    assert started.stdout is not None and started.stdin is not None
    started.stdin.write(b"go\n")
    started.stdin.flush()
    first = started.stdout.read(1000)
    os.kill(started.pid, signal.SIGKILL)
    rest = read_rest(started)
    assert started.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    assert first + rest == numbers(100000)
    wait_until(lambda: folder.info().outcome is not None, "the guardian to close the run")
    info = folder.info()
    assert info.outcome is not None and info.state == "ended"
    log, whole = (folder.path / "output.log").read_bytes(), b"up\n" + numbers(100000)
    # One chunk may be lacking or there twice, also the last one; what is round it is right.
    alike = alike_from_the_start(log, whole) + alike_from_the_start(log[::-1], whole[::-1])
    assert alike >= min(len(log), len(whole))
    assert abs(len(log) - len(whole)) <= PIPE_BYTES
    events = list(folder.events())
    assert any(e.kind == "missing" and e.data["what"] == "recorder" for e in events)
    if info.outcome.kind != "unknown":  # Linux before 6.15 does not tell the guardian
        assert info.outcome.exit_code == ending


def test_a_killed_recorder_of_a_command_that_is_killed_later(tmp_path: Path) -> None:
    started, folder = start(tmp_path, *NUMBERS, "10", "0")
    root = folder.info().root_pid
    assert root is not None
    os.kill(started.pid, signal.SIGKILL)
    started.wait(DEADLINE_SECONDS)
    wait_until(lambda: folder.info().recorder_pid != started.pid, "the guardian to take over")
    assert is_alive(root) and folder.is_live()
    os.kill(root, signal.SIGKILL)
    wait_until(lambda: folder.info().outcome is not None, "the end of the record")
    outcome = folder.info().outcome
    assert outcome is not None and outcome.signal in ("SIGKILL", None)
    assert not folder.is_live()


def test_a_killed_guardian_is_noted_and_changes_nothing(tmp_path: Path) -> None:
    started, folder = start(tmp_path, *NUMBERS, "20000", "3")
    os.kill(guardian_of(started.pid), signal.SIGKILL)
    out, _ = started.communicate(b"go\n", timeout=DEADLINE_SECONDS)
    assert (started.returncode, out) == (3, numbers(20000))
    missing = [event.data["what"] for event in folder.events() if event.kind == "missing"]
    assert "guardian" in missing


def test_both_killed_leaves_a_record_that_can_be_read(tmp_path: Path) -> None:
    started, folder = start(tmp_path, *NUMBERS, "10", "0")
    root = folder.info().root_pid
    assert root is not None
    guardian = guardian_of(started.pid)
    os.kill(guardian, signal.SIGKILL)
    os.kill(started.pid, signal.SIGKILL)
    started.wait(DEADLINE_SECONDS)
    assert is_alive(root), "until it writes to a pipe that nobody holds any more"
    assert folder.info().command[0] == sys.executable
    assert next(event.kind for event in folder.events()) == "run-started"
    os.kill(root, signal.SIGKILL)
    wait_until(lambda: not folder.is_live(), "the lock to go")


def test_the_whole_group_killed_is_still_recorded(tmp_path: Path) -> None:
    """As a harness does it after a timeout; the guardian stands outside the group."""
    started = subprocess.Popen(
        rerail_run(tmp_path, *NUMBERS, "10", "0"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=os.setpgrp,  # process_group came with Python 3.11
        bufsize=0,
    )
    assert read_line(started) == b"up\n"
    folder = Store(tmp_path).resolve("last")
    root = folder.info().root_pid
    assert root is not None
    os.killpg(started.pid, signal.SIGKILL)
    assert started.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    wait_until(lambda: not is_alive(root), "the command to be gone too")
    wait_until(lambda: folder.info().outcome is not None, "the end of the record")
    outcome = folder.info().outcome
    assert outcome is not None and outcome.signal in ("SIGKILL", None)


def test_random_processes_of_the_tree_are_killed(tmp_path: Path) -> None:
    chance = random.Random(20)
    command = [sys.executable, str(PROGRAMS / "run_replacing_workers.py"), "6"]
    started = subprocess.Popen(
        rerail_run(tmp_path, *command, options=["--no-agent"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    killed = []
    for _ in range(6):
        workers = [int(word) for word in read_line(started).split()]
        victim = chance.choice(workers)
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)
    started.communicate(timeout=DEADLINE_SECONDS)
    assert started.returncode == 0
    done = Finished(0, b"", b"", tmp_path)
    dead = [process.pid for process in done.processes() if process.signal == "SIGKILL"]
    assert sorted(dead) == sorted(killed)


@pytest.fixture
def small_disk(mount_tmpfs: Callable[[str], Path]) -> Path:
    return mount_tmpfs("size=2m")


def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    started, folder = start(small_disk / "home", *NUMBERS, "1000000", "5")
    out, _ = started.communicate(b"go\n", timeout=DEADLINE_SECONDS)
    assert (started.returncode, out) == (5, numbers(1000000))
    info = folder.info()
    assert info.outcome is not None and info.outcome.exit_code == 5
    missing = {e.data["what"]: e.data["why"] for e in folder.events() if e.kind == "missing"}
    assert "to leave the free space of the disk" in missing.get("output", ""), missing


def test_a_disk_that_was_full_from_the_start(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler:
        try:
            while True:
                filler.write(bytes(65536))
                filler.flush()
        except OSError:
            pass
    done = run_recorded(small_disk / "home", *python("print('fine'); raise SystemExit(4)"))
    assert (done.status, done.stdout) == (4, b"fine\n")


def test_a_store_that_is_removed_in_the_middle(tmp_path: Path) -> None:
    started, _ = start(tmp_path / "home", *NUMBERS, "20000", "6")
    shutil.rmtree(tmp_path / "home")
    out, _ = started.communicate(b"go\n", timeout=DEADLINE_SECONDS)
    assert (started.returncode, out) == (6, numbers(20000))


@pytest.mark.parametrize("home", ["/proc/rerail", "file/below"])
def test_a_store_that_cannot_be_written(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run_recorded(tmp_path / home, *python("print('fine'); raise SystemExit(4)"))
    assert (done.status, done.stdout) == (4, b"fine\n")
    assert b"Traceback" not in done.stderr and b"could not be written" in done.stderr


def test_a_clock_that_jumps_moves_nothing(tmp_path: Path) -> None:
    code = (
        "import itertools, time; from pathlib import Path",
        "from rerail.recorder import record; from rerail.store import Store",
        "jumps = itertools.cycle([0.0, -86400.0, 86400.0])",
        "true_time = time.time",
        "time.time = lambda: true_time() + next(jumps)",
        f"done = record(['sh', '-c', 'sleep 0.5; exit 2'], Store(Path({str(tmp_path)!r})))",
        "assert done.exit_code == 2",
    )
    subprocess.run(python(*code), check=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL)
    folder = Store(tmp_path).resolve("last")
    assert all(-0.001 <= event.t_seconds < 30 for event in folder.events())
    assert 0.5 <= (folder.info().elapsed_seconds or 0) < 30


def test_a_sense_that_fails_costs_itself_alone(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path",
        "from rerail.recorder import record; from rerail.store import Store",
        "from rerail.recorder.vitals import sampler",
        "def broken(*_): raise RuntimeError('sampler is broken')",
        "sampler.Sampler.sample = broken",
        f"done = record(['sh', '-c', 'sleep 1; exit 2'], Store(Path({str(tmp_path)!r})))",
        "assert done.exit_code == 2",
    )
    subprocess.run(python(*code), check=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL)
    missing = [e for e in Store(tmp_path).resolve("last").events() if e.kind == "missing"]
    assert any("sampler is broken" in event.data["why"] for event in missing)


@pytest.mark.slow
def test_the_recorder_is_killed_at_two_hundred_random_moments(tmp_path: Path) -> None:
    chance = random.Random(7)
    for attempt in range(200):
        home = tmp_path / str(attempt)
        started, folder = start(home, *NUMBERS, "3000", str(attempt % 100))
        assert started.stdout is not None and started.stdin is not None
        started.stdin.write(b"go\n")
        started.stdin.flush()
        time.sleep(chance.uniform(0, 0.05))
        started.kill()
        out = read_rest(started)
        started.wait()
        assert out == numbers(3000), attempt
        wait_until(lambda folder=folder: folder.info().outcome is not None, "the record's end")
        # The guardian may still be putting its own things away.
        shutil.rmtree(home, ignore_errors=True)
