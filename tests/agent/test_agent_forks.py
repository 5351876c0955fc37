"""Forked children: each has a box from its first moment, thousands of them cost next to nothing."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from agent_runs import Runner

from rerail.agent.stub import rerail_layout as layout
from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.stalls import stacks_by_signal as asked
from rerail.store.blackbox import read_all_boxes, read_box

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux maps a mapping twice")

HUNDREDS = """
import os, sys
for i in range(300):
    pid = os.fork()
    if pid == 0:
        if i == 200: os.kill(os.getpid(), 9)
        if i == 250: os.abort()
        os._exit(0)
    os.waitpid(pid, 0)
    if i in (200, 250): print(pid)
"""


def test_hundreds_of_forks_make_one_file_and_the_dead_are_told(run: Runner) -> None:
    ended = run(["-c", HUNDREDS])

    killed, aborted = map(int, ended.stdout.split())
    endings = {box.pid: box.said_goodbye for box in ended.boxes}
    assert ended.status == 0, ended.stderr
    assert endings[killed] is False
    assert (ended.crash.pid, ended.crash.signal) == (aborted, "SIGABRT")
    assert ended.crash.threads[0].python[0].function == "<module>"
    assert endings[aborted] is False
    suffixes = sorted(path.suffix for path in ended.folder.iterdir())
    assert suffixes == [".box", ".boxes", ".crash", ".crash", ".stacks"]


def test_the_stub_s_table_is_that_of_the_c_code(run: Runner) -> None:
    ended = run(["-c", "import os\nif os.fork() == 0: os._exit(0)\nos.wait()"])

    (path,) = ended.folder.glob("*.boxes")
    head = path.read_bytes()[: layout.BOXES_HEAD_SIZE]
    owners = struct.unpack_from(f"={layout.MOST_LENT}i", head, layout.OWNERS_AT)
    (child,) = (box for box in read_all_boxes(ended.folder, 0) if box.pid in owners)
    assert head.startswith(layout.BOXES_MAGIC)
    assert struct.unpack_from("=II", head, 8) == (layout.VERSION, layout.MOST_LENT)
    assert owners == (child.pid,) + (0,) * (layout.MOST_LENT - 1)
    assert path.stat().st_size == layout.BOXES_HEAD_SIZE + layout.MOST_LENT * layout.SIZE


def test_more_children_at_once_than_boxes_were_set_aside(run: Runner) -> None:
    code = f"""
import os
reading, writing = os.pipe()
children = []
for i in range({layout.MOST_LENT} + 6):
    pid = os.fork()
    if pid == 0:
        os.close(writing); os.read(reading, 1); os._exit(0)
    children.append(pid)
os.close(writing)
for pid in children: os.waitpid(pid, 0)
print(*children)
"""
    ended = run(["-c", code])

    assert {box.pid for box in ended.boxes} == {*map(int, ended.stdout.split()), ended.box.pid}
    assert len(list(ended.folder.glob("*.box"))) == 1 + 6


def test_a_forked_child_says_who_it_is(run: Runner) -> None:
    code = """
import os
os.environ["RANK"], os.environ["WORLD_SIZE"] = "3", "8"
if os.fork() == 0: os.kill(os.getpid(), 9)
os.wait()
"""
    ended = run(["-c", code])

    child = next(box for box in ended.boxes if box.pid != ended.box.pid)
    assert (child.rank, child.argv, child.python_version) == (
        3,
        ended.box.argv,
        ended.box.python_version,
    )
    assert (child.parent_pid, child.handler_installed, child.notes) == (ended.box.pid, True, [])


def test_a_forked_child_that_becomes_another_program_has_one_box(run: Runner) -> None:
    code = (
        "import os, sys\n"
        "if os.fork() == 0: os.execv(sys.executable, [sys.executable, '-c', 'pass', 'inner'])\n"
        "os.wait()"
    )
    ended = run(["-c", code])

    assert len(ended.boxes) == 2
    child = next(box for box in ended.boxes if box.pid != ended.box.pid)
    assert child.argv[-1] == "inner" and child.said_goodbye


def test_parent_and_child_crash_into_files_of_their_own(run: Runner) -> None:
    ended = run(["-c", "import os\nif os.fork() == 0: os.abort()\nos.wait(); os.abort()"])

    assert len({crash.pid for crash in ended.crashes}) == len(ended.crashes) == 2
    assert all(crash.threads[0].python for crash in ended.crashes)


def test_crash_of_a_forked_child_that_has_used_up_its_descriptors(run: Runner) -> None:
    code = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
if os.fork() == 0:
    try:
        while True: os.dup(0)
    except OSError:
        os.abort()
os.wait()
"""
    ended = run(["-c", code])

    assert ended.crash.signal == "SIGABRT" and ended.crash.pid != ended.box.pid


def test_multiprocessing_s_workers_have_room_for_their_crash(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("""
import glob, multiprocessing, os
def look(): print(len(glob.glob(f"{os.environ['RERAIL_AGENT']}/{os.getpid()}-*.crash")))
if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=look)
    worker.start(); worker.join()
""")
    assert run([str(script)]).stdout == "1\n"


def test_stacks_of_a_forked_child_are_its_own(tmp_path: Path) -> None:
    code = """
import os, signal
def child_waits():
    print(os.getpid(), flush=True)
    signal.pause()
if os.fork() == 0:
    child_waits()
os.wait()
"""
    stub = Path(layout.__file__).parent
    environ = {
        **os.environ,
        "RERAIL_AGENT": str(tmp_path),
        "RERAIL_T0": "0",
        "PYTHONPATH": str(stub),
    }
    parent = subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        start_ticks = read_start_ticks(pid)
        assert start_ticks is not None
        assert read_box(tmp_path / f"{pid}-{start_ticks}.box", 0) is None
        (thread,) = asked.take(pid, start_ticks, tmp_path, 20.0) or []
        assert [frame.function for frame in thread.python] == ["child_waits", "<module>"]
    finally:
        if (children := Path(f"/proc/{parent.pid}/task/{parent.pid}/children")).exists():
            for child in children.read_text().split():
                os.kill(int(child), 9)
        parent.kill()
        parent.communicate()
