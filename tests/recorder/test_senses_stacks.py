"""Stacks of hung processes: who waits where, for what, told by real deadlocks."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.agent.stub import rerail_layout as layout
from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.stalls import stacks, waits
from rerail.recorder.stalls import stacks_by_debugger as spied
from rerail.recorder.stalls import stacks_by_signal as asked
from rerail.recorder.stalls.thread_ids import kernel_ids

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROGRAMS = Path(__file__).parent.parent / "programs"

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def hung(program: str, tmp_path: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The program and its child, both alive and waiting: (pid, start) of each."""
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    environ = {**os.environ, "OMP_NUM_THREADS": "2"}
    parent = subprocess.Popen(
        [sys.executable, str(PROGRAMS / program), str(fifo)], env=environ, start_new_session=True
    )
    # Opened for both ways, so that a program that dies at once does not block the test here.
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        said = b""
        deadline = time.monotonic() + 180
        while not said.endswith(b"\n") and parent.poll() is None and time.monotonic() < deadline:
            try:
                said += os.read(reader, 100)
            except BlockingIOError:
                time.sleep(0.01)
        assert said, "the program did not get as far as its child"
        child = int(said)
        wait_until_asleep(child)
        wait_until_asleep(parent.pid)
        yield (parent.pid, read_start_ticks(parent.pid) or 0), (child, read_start_ticks(child) or 0)
    finally:
        os.close(reader)
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def wait_until_asleep(pid: int) -> None:
    """Until every thread waits, three looks in a row."""
    deadline = time.monotonic() + 180
    calm = 0
    while calm < 3 and time.monotonic() < deadline:
        threads = waits.look(pid, [pid])
        calm = calm + 1 if threads and all(thread.state == "S" for thread in threads) else 0
        time.sleep(0.02)
    assert calm == 3


def key(identity: tuple[int, int]) -> str:
    return f"{identity[0]}-{identity[1]}"


@pytest.mark.thorough
@linux
@pytest.mark.torch
def test_a_faiss_search_after_fork_is_seen_in_libgomp(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    if spied.find_program("py-spy") is None:
        pytest.skip("no py-spy")
    with hung("senses_faiss_fork_hang.py", tmp_path) as (parent, child):
        found = stacks.take([parent, child], tmp_path, seconds=20.0)
    worker = found[key(child)][0]
    assert worker.thread_id == child[0]
    assert "futex" in (worker.waits_for or "")
    assert any("gomp" in (frame.library or "") for frame in worker.native)
    assert any("faiss" in (frame.function or "") for frame in worker.native)
    assert "search_in_the_child" in [frame.function for frame in worker.python]
    main = found[key(parent)][0]
    assert main.waits_for == f"process {child[0]} to end"


@linux
def test_what_each_waits_for_is_told_without_any_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spied, "find_program", lambda name: None)
    with hung("senses_waits.py", tmp_path) as (parent, child):
        found = stacks.take([parent, child], tmp_path, seconds=5.0)
    main, reader = found[key(parent)][0], found[key(child)][0]
    assert main.waits_for == f"process {child[0]} to end"
    assert reader.waits_for == f"data from a pipe with process {parent[0]}"
    assert reader.native[0].library is not None  # from the kernel's own instruction pointer
    assert any("futex" in (thread.waits_for or "") for thread in found[key(child)][1:])


@linux
def test_python_frames_come_from_py_spy(tmp_path: Path) -> None:
    if spied.find_program("py-spy") is None:
        pytest.skip("no py-spy")
    with hung("senses_waits.py", tmp_path) as (parent, child):
        found = stacks.take([parent, child], tmp_path, seconds=20.0)
    functions = [frame.function for thread in found[key(child)] for frame in thread.python]
    assert "hold_a_lock" in functions
    assert len(found[key(child)]) == 2


AGENT = """
import faulthandler, mmap, os, signal, struct, sys, threading
sys.path.insert(0, {stub!r})
import rerail_layout as layout
folder, number = sys.argv[1], signal.SIGRTMIN + 4
start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
stem = os.path.join(folder, "%d-%s" % (os.getpid(), start))
answer = open(stem + ".stacks", "w")
faulthandler.register(number, file=answer, all_threads=True)
box = bytearray(layout.SIZE)
box[:8] = layout.MAGIC
head = dict(pid=os.getpid(), stacks_signal=number, stacks_fd=answer.fileno())
for name, value in head.items():
    struct.pack_into("=q", box, layout.HEAD[name], value)
open(stem + ".box", "wb").write(box)
def waits_for_ever():
    threading.Event().wait()
threading.Thread(target=waits_for_ever, daemon=True).start()
print(start, flush=True)
def reads_a_line():
    sys.stdin.readline()
reads_a_line()
"""


@contextmanager
def with_agent(tmp_path: Path) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT.format(stub=str(Path(layout.__file__).parent)), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    start = int(process.stdout.readline())
    wait_until_asleep(process.pid)
    try:
        yield process.pid, start
        assert process.poll() is None, "asking for stacks must not end the process"
    finally:
        process.kill()
        process.communicate()


@linux
def test_without_py_spy_the_agent_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spied, "find_program", lambda name: None)
    with with_agent(tmp_path) as identity:
        found = stacks.take([identity], tmp_path, seconds=5.0)[key(identity)]
    main, other = found
    assert main.thread_id == identity[0]
    assert "reads_a_line" in [frame.function for frame in main.python]
    assert "waits_for_ever" in [frame.function for frame in other.python]
    assert "data from" in (main.waits_for or "")


@linux
@pytest.mark.parametrize("what", ["no handler", "other file", "other pid", "not a box"])
def test_a_process_that_may_not_be_asked_is_not_signalled(tmp_path: Path, what: str) -> None:
    with with_agent(tmp_path) as (pid, start):
        box = tmp_path / f"{pid}-{start}.box"
        content = bytearray(box.read_bytes())
        if what == "no handler":  # this signal would end the process
            struct.pack_into("=q", content, layout.HEAD["stacks_signal"], signal.SIGRTMIN + 9)
        elif what == "other file":
            struct.pack_into("=q", content, layout.HEAD["stacks_fd"], 2)
        elif what == "other pid":
            struct.pack_into("=q", content, layout.HEAD["pid"], pid + 1)
        else:
            content = bytearray(b"nonsense")
        box.write_bytes(content)
        assert asked.take(pid, start, tmp_path, 1.0) is None


def test_a_process_that_is_gone_is_left_out(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert stacks.take([(process.pid, 1)], tmp_path, seconds=1.0) == {}


FAULTHANDLER = """\
Thread 0x00007f41b5d4d6c0 [loader] (most recent call first):
  File "/a/queue.py", line 171 in get
  File "/a/my file, line 3 in x.py", line 12 in run

Current thread 0x00007f41ed2c3740 (most recent call first):
  File "train.py", line ??? in <module>
  ...
Extension modules: numpy.core._multiarray_umath (total: 1)
"""


def test_faulthandler_text_is_parsed() -> None:
    loader, current = asked.parse_faulthandler(FAULTHANDLER)
    assert loader.name == "loader"
    assert [(frame.line, frame.function) for frame in loader.python] == [(171, "get"), (12, "run")]
    assert loader.python[1].file == "/a/my file, line 3 in x.py"
    assert current.python[0].line == 0


def test_threads_are_matched_by_their_stacks() -> None:
    def waiting(thread_id: int, pointer: int) -> waits.Waiting:
        return waits.Waiting(thread_id, "python", "S", None, None, pointer, None)

    seen = [waiting(10, 0x7FFC00001000), waiting(11, 0x7F41B5D4CE78), waiting(12, 0x7F41B654DE78)]
    threads = [0x7F41B654E6C0, 0x7F41B5D4D6C0, 0x7F41ED2C3740]
    assert [*kernel_ids(threads, 10, seen).values()] == [12, 11, 10]
    assert [*kernel_ids([11, threads[0]], 10, seen).values()] == [11, 12]
    assert [*kernel_ids(threads, 10, []).values()] == threads


PYSTACK = """\
Traceback for thread 71 (python3) [Has the GIL] (most recent call last):
    (C) File "???", line 0, in _start (python3)
    (Python) File "/a/train.py", line 9, in <module>
        main()
    (Python) File "/a/train.py", line 3, in main
    (C) File "futex.c", line 57, in __futex_wait (libc.so.6)
"""


def test_pystack_text_is_parsed_innermost_first() -> None:
    (thread,) = spied.parse_pystack(PYSTACK)
    assert thread.thread_id == 71
    assert [frame.function for frame in thread.python] == ["main", "<module>"]
    assert [(f.function, f.library) for f in thread.native] == [
        ("__futex_wait", "libc.so.6"),
        ("_start", "python3"),
    ]


@unhurried
@given(st.text(max_size=400))
def test_any_text_is_survived(text: str) -> None:
    spied.parse_py_spy(text)
    spied.parse_pystack(text)
    asked.parse_faulthandler(text)
    waits.parse_syscall(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["frames", "os_thread_id", "name", "filename", "module", "line"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@unhurried
@given(json_values)
def test_any_json_is_survived(value: object) -> None:
    spied.parse_py_spy(json.dumps(value))


def test_system_calls_are_parsed() -> None:
    text = "202 0x560383b31404 0x80 0x10 0x0 0x28 0xff 0x7ffcd3c7d3b0 0x7f41e321e073"
    call = waits.parse_syscall(text)
    assert call is not None
    assert (call[0], call[1][0], call[2], call[3]) == (
        202,
        0x560383B31404,
        0x7FFCD3C7D3B0,
        0x7F41E321E073,
    )
    assert waits.parse_syscall("running") is None
    assert waits.parse_syscall("-1 0x0 0x0") is None
