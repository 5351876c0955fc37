"""A program may lower its own limits or see other mounts than the recorder: both must be told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rerail.recorder.kernel import account as kernel
from rerail.recorder.vitals.machine import MachineReader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """A process that has said a line and waits for the end of its standard input."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        pytest.skip(f"{command[0]} does not work here: exit status {process.returncode}")
    return process


def test_a_limit_that_the_program_lowered_itself_is_in_the_account() -> None:
    lowers = (
        "import resource, sys\n"
        "print('noted', flush=True); sys.stdin.readline()\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (123, hard))\n"
        "print('lowered', flush=True); sys.stdin.read()\n"
    )
    watch = kernel.begin()
    with started([sys.executable, "-c", lowers]) as process:
        assert process.stdin is not None and process.stdout is not None
        watch.note_process(process.pid)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"lowered\n"
        watch.poll()
        process.stdin.close()
    assert watch.finish([(process.pid, 0)]).process_limits["RLIMIT_NOFILE"] == 123


def test_shared_memory_is_that_which_the_process_sees(tmp_path: Path, unshare: list[str]) -> None:
    script = "mount -t tmpfs -o size=8m tmpfs /dev/shm && echo mounted && cat"
    reader = MachineReader(tmp_path, tmp_path)
    before = reader.read().get("shm_total_bytes", 0)
    with started([*unshare, "--mount", "sh", "-c", script]) as process:
        assert process.stdin is not None
        reader.note_process(process.pid)
        assert reader.read()["shm_total_bytes"] == 8 << 20 != before
        process.stdin.close()
    assert reader.read().get("shm_total_bytes", 0) == before
