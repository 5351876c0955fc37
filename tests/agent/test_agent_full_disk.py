"""No room, no rights, no file size: the program runs as if nothing were there."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import Runner


@pytest.fixture
def tiny_disk(mount_tmpfs: Callable[[str], Path]) -> Path:
    return mount_tmpfs("size=256k,nr_inodes=64")


PROGRAM = """
import os, sys
for i in range(3):
    pid = os.fork()
    if pid == 0: sys.exit(i)
    print(os.waitpid(pid, 0)[1] >> 8, flush=True)
print("ran", flush=True)
"""


@pytest.mark.parametrize("free_kib", [0, 8, 40, 120])
def test_full_disk(run: Runner, tiny_disk: Path, free_kib: int) -> None:
    (tiny_disk / "ballast").write_bytes(bytes((256 - free_kib) * 1024))
    ended = run(["-c", PROGRAM], folder=tiny_disk)

    assert (ended.status, ended.stdout, ended.stderr) == (0, "0\n1\n2\nran\n", "")
    dying = run(["-c", PROGRAM + "os.abort()"], folder=tiny_disk)
    assert (dying.status, dying.stdout) == (-signal.SIGABRT, "0\n1\n2\nran\n")


def test_disk_that_fills_up_while_running(run: Runner, tiny_disk: Path) -> None:
    """What was reserved beforehand holds: the crash is recorded on a full disk."""
    fill = f"""
import os
try:
    with open({str(tiny_disk / "ballast")!r}, "wb", 0) as ballast:
        while True: ballast.write(bytes(4096))
except OSError: pass
os.abort()
"""
    ended = run(["-c", fill], folder=tiny_disk)

    assert ended.status == -signal.SIGABRT
    assert ended.box.handler_installed
    assert ended.crash.signal == "SIGABRT"
    assert ended.crash.threads[0].native and ended.crash.threads[0].python


def test_small_file_size_limit(run: Runner) -> None:
    """RLIMIT_FSIZE sends SIGXFSZ to whoever writes past it: then nothing is written."""
    code = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
    inner = "import os; print('ran', flush=True); os.abort()"
    code += f"os.execv(sys.executable, [sys.executable, '-c', {inner!r}])"
    ended = run(["-c", code])

    assert (ended.status, ended.stdout) == (-signal.SIGABRT, "ran\n")


def test_few_descriptors(run: Runner) -> None:
    code = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import os; print(os.open('/', 0)); os.abort()"]))
"""
    bare, ended = (run(["-c", code], agent=agent) for agent in (False, True))

    assert ended.status == bare.status == 0
    assert "returncode=-6" in ended.stdout
    assert len(ended.crashes) == 1
