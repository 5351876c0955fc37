"""Black boxes in memory: whoever is killed, and wherever the command sees memory, they are read."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import (
    DEADLINE_SECONDS,
    is_alive,
    python,
    read_line,
    rerail_run,
    run_recorded,
    wait_until,
)
from test_chaos_recorder import guardian_of

from rerail.diagnosis import explain_run
from rerail.recorder.stalls import stacks_by_signal as asked
from rerail.recorder.stalls.now import look_now
from rerail.store import RunFolder, Store, agent_memory

STEPS = "sys.modules['rerail_box'].numbers[sys.modules['rerail_layout'].WORD['optimizer_steps']] = "
FAILS = python("import sys", f"{STEPS}41", "print('up', flush=True)", "input()", "int('seven')")
OWN_MEMORY = 'mount -t tmpfs -o size={size} none /dev/shm || exit 77; exec "$@"'


def start(home: Path, command: list[str]) -> tuple[subprocess.Popen[bytes], RunFolder]:
    started = subprocess.Popen(
        rerail_run(home, *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    assert read_line(started) == b"up\n"
    return started, Store(home).resolve("last")


def memory_of(folder: RunFolder) -> Path:
    memory = agent_memory.find(folder.path)
    if memory is None:
        pytest.skip("this machine has no memory file system with room for the agent")
    return memory


def in_own_memory(size: str, command: list[str]) -> list[str]:
    """`command` in a mount namespace with another /dev/shm."""
    unshare = shutil.which("unshare")
    rights = ["-m"] if os.geteuid() == 0 else ["-rm"]
    words = [str(unshare), *rights, "sh", "-c", OWN_MEMORY.format(size=size), "sh"]
    if unshare is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    return [*words, *command]


def test_a_live_run_is_read_from_memory(tmp_path: Path) -> None:
    """As watch, ui, stacks and the page of a live run do it."""
    started, folder = start(tmp_path, FAILS)
    memory = memory_of(folder)
    assert not list((folder.path / "agent").glob("*.crash"))
    (box,) = folder.boxes()
    assert box.optimizer_steps == 41
    wait_until(lambda: look_now(folder).stacks, "the start of the process to be on record")
    threads = asked.take(box.pid, box.start_ticks, folder.agent_files(), DEADLINE_SECONDS) or []
    assert [frame.file for thread in threads for frame in thread.python] == ["<string>"]
    assert next(memory.glob("*.stacks")).stat().st_size > 0
    started.communicate(b"\n", timeout=DEADLINE_SECONDS)
    assert not memory.exists()
    (box,) = folder.boxes()
    assert (box.optimizer_steps, box.exception_type) == (41, "ValueError")
    kept = sorted(path.suffix for path in (folder.path / "agent").iterdir())
    assert kept == [".box", ".stacks"]


def test_a_killed_recorder_leaves_the_boxes_to_its_guardian(tmp_path: Path) -> None:
    started, folder = start(tmp_path, FAILS)
    memory = memory_of(folder)
    os.kill(started.pid, signal.SIGKILL)
    started.wait(DEADLINE_SECONDS)
    assert started.stdin is not None
    started.stdin.write(b"\n")
    wait_until(lambda: folder.info().outcome is not None, "the guardian to close the run")
    (box,) = folder.boxes()
    assert (box.optimizer_steps, box.exception_type) == (41, "ValueError")
    assert not memory.exists() and list((folder.path / "agent").glob("*.box"))
    assert "ValueError" in explain_run(folder).headline
    started.communicate(timeout=DEADLINE_SECONDS)


def test_both_killed_leaves_the_boxes_in_memory_until_a_later_run(tmp_path: Path) -> None:
    started, folder = start(tmp_path / "home", FAILS)
    memory = memory_of(folder)
    root = folder.info().root_pid
    assert root is not None and started.stdin is not None
    try:
        os.kill(guardian_of(started.pid), signal.SIGKILL)
        os.kill(started.pid, signal.SIGKILL)
        started.wait(DEADLINE_SECONDS)
        started.stdin.write(b"\n")
        wait_until(lambda: not is_alive(root) and not folder.is_live(), "the command to end")
        assert not list((folder.path / "agent").glob("*.crash"))
        (box,) = folder.boxes()
        assert (box.optimizer_steps, box.exception_type) == (41, "ValueError")
        assert "ValueError" in explain_run(folder).headline
        # A later run, in another store, finds them too.
        waits = python(
            "import os, sys, time",
            "while os.path.exists(sys.argv[1]) and time.monotonic() < float(sys.argv[2]):",
            "    time.sleep(0.02)",
        )
        until = str(time.monotonic() + DEADLINE_SECONDS)
        run_recorded(tmp_path / "other", *waits, str(memory), until)
        assert not memory.exists()
        (box,) = folder.boxes()
        assert box.optimizer_steps == 41
    finally:
        started.communicate()
        shutil.rmtree(memory, ignore_errors=True)


@pytest.mark.thorough
def test_a_command_that_sees_another_memory_is_recorded(tmp_path: Path) -> None:
    """A live reader finds its box in the run folder, which was the only place before."""
    started, folder = start(tmp_path, in_own_memory("64m", FAILS))
    memory = memory_of(folder)
    assert not list(memory.glob("*.box"))
    assert [box.optimizer_steps for box in folder.boxes()] == [41]
    started.communicate(b"\n", timeout=DEADLINE_SECONDS)
    (box,) = folder.boxes()
    assert (box.optimizer_steps, box.exception_type) == (41, "ValueError")


@pytest.mark.thorough
def test_a_machine_with_little_shared_memory_uses_the_run_folder(tmp_path: Path) -> None:
    """64 MB of /dev/shm, as containers have it, belong to the program."""
    look = python("import os", "print(os.listdir('/dev/shm'), os.environ['RERAIL_AGENT'])")
    recorded = in_own_memory("64m", rerail_run(tmp_path, *look))
    environ = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run(
        recorded, capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=environ
    )
    assert done.returncode == 0 and done.stdout.startswith("[] "), done.stderr
    assert len(Store(tmp_path).resolve("last").boxes()) == 1
