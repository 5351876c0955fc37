"""What is read from stacks: what a thread waits for, who holds a lock, whether a tree spins."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.recorder.stalls.busy_or_spinning import only_spins
from rerail.recorder.stalls.lock_holders import find_holder
from rerail.recorder.stalls.places import Who, find_places
from rerail.recorder.stalls.wait_kinds import waits_for
from rerail.records import NativeFrame, PythonFrame, ThreadStack

LIB = "/usr/lib/python3.11"


def frames(*places: str) -> list[PythonFrame]:
    """`/x/a.py:7 save`, innermost first."""
    found = []
    for place in places:
        where, _, function = place.partition(" ")
        file, _, line = where.rpartition(":")
        found.append(PythonFrame(file, int(line), function))
    return found


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ([f"{LIB}/threading.py:320 wait", f"{LIB}/queue.py:171 get", "/x/a.py:7 f"], "queue"),
        ([f"{LIB}/threading.py:1112 join", "/x/a.py:7 f"], "thread"),
        ([f"{LIB}/threading.py:629 Event.wait", "/x/a.py:7 f"], "event"),
        ([f"{LIB}/subprocess.py:1264 wait", "/x/a.py:7 f"], "child"),
        ([f"{LIB}/multiprocessing/connection.py:399 _recv", "/x/a.py:7 f"], "pipe"),
        ([f"{LIB}/concurrent/futures/_base.py:451 result", "/x/a.py:7 f"], "future"),
        ([f"{LIB}/ssl.py:1296 read", "/x/a.py:7 f"], "network"),
        (
            [
                f"{LIB}/site-packages/torch/distributed/distributed_c10d.py:2806 all_reduce",
                "/x/a.py:7 f",
            ],
            "collective",
        ),
    ],
)
def test_pythons_own_frames_tell_what_is_waited_for(stack: list[str], kind: str) -> None:
    thread = ThreadStack(
        1, None, [], frames(*stack), waits_for="a lock or another thread (futex 0)"
    )
    found = waits_for(thread, thread.python, None)
    assert found is not None and found.kind == kind


@pytest.mark.parametrize(
    ("native", "call", "kind"),
    [
        ("PyThread_acquire_lock_timed", "a lock or another thread (futex 0x1)", "lock"),
        ("time_sleep", "activity on several descriptors (select)", "sleep"),
        (None, "data from a pipe that no other process of the run holds", "pipe"),
        (None, "process 12 to end", "child"),
        (None, "the disk or a network file system (rpc_wait)", "disk"),
        (None, "nothing: it runs", None),
    ],
)
def test_native_functions_and_system_calls_tell_it_too(
    native: str | None, call: str, kind: str | None
) -> None:
    inner = [NativeFrame(1, "/lib/libpython3.11.so", 1, native)] if native else []
    thread = ThreadStack(1, None, inner, frames("/x/a.py:7 f"), waits_for=call)
    found = waits_for(thread, thread.python, None)
    assert (found.kind if found else None) == kind


def test_a_workers_stack_ends_where_it_was_forked() -> None:
    inherited = [f"{LIB}/multiprocessing/process.py:314 _bootstrap", "/x/train.py:50 main"]
    idle = [
        f"{LIB}/multiprocessing/connection.py:257 poll",
        f"{LIB}/multiprocessing/queues.py:113 get",
    ]
    stuck = ["/x/data.py:9 __getitem__"]
    main = [
        f"{LIB}/site-packages/torch/utils/data/dataloader.py:1120 _try_get_data",
        "/x/train.py:50 main",
    ]
    stacks = {
        "10-1": [ThreadStack(10, None, [], frames(*main))],
        "11-2": [ThreadStack(11, None, [], frames(*idle, *inherited))],
        "12-3": [ThreadStack(12, None, [], frames(*stuck, *inherited), waits_for="a sleep to end")],
    }
    who = {"10-1": Who("main"), "11-2": Who("loader-worker"), "12-3": Who("loader-worker")}
    places = find_places(stacks, who, 2)
    assert [place.process for place in places] == [
        "worker 1 (pid 12)",
        "main process",
        "worker 0 (pid 11)",
    ]
    assert places[2].own == [] and places[2].waits_for_work


SOURCE = """\
import threading
a = threading.Lock()

def holds():
    with a:
        work()

def gave_back():
    a.acquire()
    a.release()
    work()

def wants(b):
    with b.lock:
        pass
    a.acquire()

def takes(self):
    self.lock.acquire()
    work()
"""


def holder_of(tmp_path: Path, waiting: str, others: list[str], names: dict[int, int]) -> int | None:
    """`names`: by thread, the address of the object that its lock belongs to."""
    file = tmp_path / "locks.py"
    file.write_text(SOURCE)
    stacks = [
        ThreadStack(at, f"t{at}", [], frames(f"{file}:{place}"))
        for at, place in enumerate([waiting, *others], 1)
    ]
    variables = {at: [{"b": address, "self": address}] for at, address in names.items()}
    found = find_holder(stacks[0], stacks, 1, variables, tmp_path)
    return found.thread_id if found else None


def test_the_holder_of_a_lock_is_read_from_the_program(tmp_path: Path) -> None:
    assert holder_of(tmp_path, "16 wants", ["11 gave_back", "6 holds"], {}) == 3
    assert holder_of(tmp_path, "16 wants", ["11 gave_back"], {}) is None
    assert holder_of(tmp_path, "14 wants", ["20 takes", "20 takes"], {1: 7, 2: 8, 3: 7}) == 3


def test_between_two_possible_holders_none_is_named(tmp_path: Path) -> None:
    assert holder_of(tmp_path, "16 wants", ["6 holds", "6 holds"], {}) is None


def test_a_source_that_is_gone_or_is_not_python_names_nobody(tmp_path: Path) -> None:
    stack = ThreadStack(1, None, [], frames("/nowhere/x.py:3 f"))
    assert find_holder(stack, [stack], 1, {}, tmp_path) is None
    (tmp_path / "broken.py").write_bytes(b"\0(((")
    stack = ThreadStack(1, None, [], frames(f"{tmp_path}/broken.py:1 f"))
    assert find_holder(stack, [stack], 1, {}, tmp_path) is None


def test_only_a_tree_in_which_every_active_thread_spins_is_hung() -> None:
    spins = ThreadStack(1, None, [NativeFrame(1, "/f/libgomp-a.so.1", 1, "gomp_barrier_wait_end")])
    works = ThreadStack(2, None, [NativeFrame(1, "/f/libtorch_cpu.so", 1, "at::native::gemm")])
    waits = ThreadStack(3, None, [NativeFrame(1, "/lib/libc.so.6", 1, "wait4")])
    before = {("9-1", 1): 0, ("9-1", 2): 0, ("9-1", 3): 0}
    looks = [{"9-1": [spins, works, waits]}] * 3
    assert only_spins(before, {("9-1", 1): 100, ("9-1", 3): 0}, 1.0, looks)
    assert not only_spins(before, {("9-1", 1): 100, ("9-1", 2): 90}, 1.0, looks)
    assert not only_spins(before, {("9-1", 1): 0}, 1.0, looks)
    assert not only_spins(before, {("9-1", 4): 90}, 1.0, looks), "its stack is not known"
