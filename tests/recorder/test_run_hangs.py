"""Real programs that hang, or only work without a word: what is said of them, and why they died."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from run_driver import PROGRAMS, Finished, rerail_run, run_recorded

from rerail.diagnosis import explain_run
from rerail.errors import RerailError
from rerail.recorder.stalls.stacks_by_debugger import find_program

PROGRAM = PROGRAMS / "stalls_hangs.py"
SOURCE = PROGRAM.read_text(encoding="utf-8").splitlines()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
with_variables = pytest.mark.skipif(
    find_program("py-spy") is None, reason="only py-spy reads the stacks of a thread that waits"
)


def hangs(way: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PROGRAM), way, *arguments]


def line_of(code: str, after: str = "") -> int:
    """The number of the first line that holds `code`, below the line that holds `after`."""
    start = next((at for at, line in enumerate(SOURCE) if after and after in line), 0)
    return next(at + 1 for at, line in enumerate(SOURCE) if at >= start and code in line)


def killed(home: Path, way: str, *arguments: str, stall: str = "2") -> Finished:
    options = ["--stall", stall, "--on-stall", "kill"]
    return run_recorded(home, *hangs(way, *arguments), options=options)


def interrupted(home: Path, way: str, number: int) -> Finished:
    """Ended by a signal, like Ctrl-C, once rerail has said that it stands still."""
    command = rerail_run(home, *hangs(way, "60"), options=["--stall", "2"])
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    said = b""
    while b"recorded; see" not in said:
        part = child.stderr.readline()
        assert part, said
        said += part
    child.send_signal(number)
    out, err = child.communicate(timeout=180)
    return Finished(child.returncode, out, said + err, home)


def answer(done: Finished) -> tuple[str | None, dict[str, Any]]:
    found = explain_run(done.folder)
    return (found.leading.id if found.leading else None), found.facts


def shown(done: Finished) -> list[str]:
    text = done.stderr.decode()
    return [line for line in text.splitlines() if line.startswith("rerail:")]


def joined(lines: Sequence[str]) -> str:
    return " ".join(line.removeprefix("rerail:").strip() for line in lines)


def assert_short(lines: Sequence[str]) -> None:
    """Each message; an import that takes its time is told of before."""
    ends = ("recorded; see", "ending the run")
    ended = [at for at, line in enumerate(lines) if any(end in line for end in ends)]
    assert ended and ended[-1] == len(lines) - 1, lines
    assert all(at - before <= 8 for before, at in zip([-1, *ended], ended, strict=False)), lines
    assert all(len(line) <= 80 for line in lines), lines


@pytest.mark.thorough
@with_variables
def test_a_lock_that_another_thread_holds(tmp_path: Path) -> None:
    done = killed(tmp_path, "held_by_a_thread")
    lines = shown(done)
    assert_short(lines)
    said = joined(lines)
    here, there = line_of("lock.acquire()"), line_of("time.sleep(3600)")
    assert f"stalls_hangs.py:{here} save() waits for a lock" in said
    assert f"thread flusher holds in stalls_hangs.py:{there}" in said
    assert "CPU" in said and "no step and no output for" in said
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "hang"
    assert f"stalls_hangs.py:{here} save()" in outcome.summary
    cause, facts = answer(done)
    assert cause == "deadlock"
    assert facts["where"]["line"] == here and facts["where"]["function"] == "save"
    assert facts["where"]["process"] == "main process"
    assert facts["hang"]["kind"] == "stuck" and facts["hang"]["waits_for"] == "a lock"
    assert facts["hang"]["seconds"] >= 2
    assert facts["hang"]["holder"]["thread"] == "thread flusher"
    assert facts["hang"]["holder"]["line"] == there


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@with_variables
def test_who_ends_a_hang_is_not_its_cause(tmp_path: Path, number: int) -> None:
    done = interrupted(tmp_path, "held_by_a_thread", number)
    assert done.status == -number
    cause, facts = answer(done)
    assert cause == "deadlock"
    assert facts["where"]["function"] == "save"
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "signal"
    assert "it had stood still for" in outcome.summary and "save()" in outcome.summary


@pytest.mark.thorough
@with_variables
def test_a_hang_that_is_ended_long_before_it_counts_as_one(tmp_path: Path) -> None:
    """By default a run has ten minutes before its first steps; people wait for less."""
    child = subprocess.Popen(
        rerail_run(tmp_path, *hangs("held_by_a_thread")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    done = Finished(0, b"", b"", tmp_path)
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and not _has_event(done, "quiet"):
        time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=180)
    assert b"rerail:" not in err
    cause, facts = answer(done)
    assert cause == "deadlock"
    assert facts["where"]["function"] == "save" and facts["hang"]["seconds"] >= 10
    assert facts["hang"]["waits_for"] == "a lock"
    assert facts["hang"]["holder"]["thread"] == "thread flusher"
    outcome = done.folder.info().outcome
    assert outcome is not None and "it had stood still for" in outcome.summary


def _has_event(done: Finished, kind: str) -> bool:
    try:
        return bool(done.events(kind))
    except RerailError:
        return False  # it has hardly begun


@pytest.mark.thorough
@with_variables
def test_a_lock_that_it_holds_itself(tmp_path: Path) -> None:
    cause, facts = answer(killed(tmp_path, "held_by_itself"))
    assert cause == "deadlock"
    assert facts["hang"]["holder"]["thread"] == "the same thread"
    assert facts["hang"]["holder"]["function"] == "held_by_itself"


@pytest.mark.thorough
@with_variables
def test_locks_of_two_objects_are_told_apart(tmp_path: Path) -> None:
    cause, facts = answer(killed(tmp_path, "in_another_order"))
    assert cause == "deadlock"
    assert facts["where"]["line"] == line_of("with self.lock", after="def save")
    holder = facts["hang"]["holder"]
    assert holder["line"] == line_of("other_store.save()")
    assert holder["thread"].startswith("thread 1")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "waits_for", "code"),
    [
        ("empty_queue", "a queue", "queue.Queue().get()"),
        ("silent_pipe", "a pipe", "os.read(read_end, 1)"),
        ("child_that_hangs", "child process ", "subprocess.run("),
    ],
)
@with_variables
def test_what_it_waits_for(tmp_path: Path, way: str, waits_for: str, code: str) -> None:
    done = killed(tmp_path, way)
    assert_short(shown(done))
    cause, facts = answer(done)
    assert cause == "deadlock"
    assert facts["hang"]["waits_for"].startswith(waits_for)
    assert facts["where"]["function"] == way
    assert facts["where"]["line"] == line_of(code)
    assert facts["where"]["process"] == "main process"


@pytest.mark.thorough
@with_variables
def test_a_worker_that_hangs_is_the_one_that_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = killed(tmp_path, "hanging_worker", stall="8")  # on a loaded machine workers start slowly
    assert_short(shown(done))
    cause, facts = answer(done)
    assert cause == "loader-hang"
    assert facts["where"]["function"] == "silent_pipe"
    assert re.fullmatch(r"worker (1 )?\(pid \d+\)", facts["where"]["process"])
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "hang"


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["computes", "multiplies", "reads_and_writes"])
def test_a_program_that_works_without_a_word_is_told_of_and_left_alone(
    tmp_path: Path, way: str
) -> None:
    if way == "multiplies":
        pytest.importorskip("numpy")
    done = killed(tmp_path, way, "9")
    assert (done.status, done.stdout) == (0, b"begun\ndone\n")
    lines = shown(done)
    assert_short(lines)
    does = "reads or writes in" if way == "reads_and_writes" else "computes in"
    assert does in joined(lines) and "looks busy, not stuck" in joined(lines)
    assert not done.events("stall") and len(done.events("busy")) == 1
    assert [stall.kind for stall in done.folder.stalls()] == ["busy"]
    cause, facts = answer(done)
    assert cause is None and "hang" not in facts


@pytest.mark.thorough
@with_variables
def test_a_loop_without_end_is_named_with_its_line(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "computes", signal.SIGINT)
    said = joined(shown(done))
    assert "computes in stalls_hangs.py:" in said and "looks busy, not stuck" in said
    cause, facts = answer(done)
    assert cause == "user-interrupt"
    assert facts["hang"]["kind"] == "busy" and facts["where"]["function"] == "computes"


@pytest.mark.thorough
def test_a_program_that_sleeps_between_its_words_is_healthy(tmp_path: Path) -> None:
    done = killed(tmp_path, "sleeps_between_words")
    assert done.status == 0 and shown(done) == [] and not list(done.folder.stalls())
