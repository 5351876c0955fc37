"""Who waits for whom: the headline of a hang names each of the two once, with what it waits for."""

from __future__ import annotations

from run_builders import info, process, recorded

from rerail.diagnosis.from_evidence import diagnose
from rerail.diagnosis.result import Diagnosis
from rerail.evidence.run.collect import collect_recorded
from rerail.records import NativeFrame, Outcome, PythonFrame, Stall, ThreadStack

HUNG = Outcome("hang", "it hung and was stopped", signal="SIGTERM", process="main")
LIBRARY = "/usr/lib/python3.11"
LOCK = [NativeFrame(0, "/usr/lib/libpython3.11.so", None, "PyThread_acquire_lock_timed")]
SLEEP = [NativeFrame(0, "/usr/lib/libpython3.11.so", None, "time_sleep")]


def at(line: int, function: str, *library: PythonFrame) -> list[PythonFrame]:
    return [*library, PythonFrame("/data/job/train.py", line, function)]


RECEIVES = PythonFrame(f"{LIBRARY}/multiprocessing/connection.py", 250, "_ConnectionBase.recv")
GETS = PythonFrame(f"{LIBRARY}/multiprocessing/queues.py", 103, "Queue.get")


def hung(**stacks: list[ThreadStack]) -> Diagnosis:
    by_key = {f"{name.removeprefix('p')}-7": threads for name, threads in stacks.items()}
    children = [process(pid, "multiprocessing", signal="SIGTERM") for pid in (101, 102)]
    run = recorded(
        info=info(HUNG),
        processes=[process(signal="SIGTERM"), *children],
        stalls=[Stall(40.0, 30.0, 30.0, "kill", by_key)],
    )
    return diagnose(collect_recorded(run))


def test_two_threads_that_wait_for_a_lock_are_both_named() -> None:
    idle = ThreadStack(103, "asyncio_0", LOCK, [PythonFrame(f"{LIBRARY}/queue.py", 81, "get")])
    main = ThreadStack(100, "MainThread", LOCK, at(37, "scale"))
    other = ThreadStack(102, "snapshots", LOCK, at(53, "run"))
    found = hung(p100=[main, idle, other])
    waits = "thread snapshots waits for a lock in train.py:53 run()"
    assert "in train.py:37 scale(), waiting for a lock" in found.headline
    assert found.headline.endswith(f", while {waits}.")
    assert found.facts["where"]["line"] == 37


def test_a_thread_that_waits_alone_is_named_alone() -> None:
    main = ThreadStack(100, "MainThread", LOCK, at(37, "scale"))
    working = ThreadStack(102, "snapshots", SLEEP, at(53, "run"))
    assert "while" not in hung(p100=[main, working]).headline


def test_of_two_processes_that_wait_at_both_ends_of_a_pipe_both_are_named() -> None:
    parent = at(89, "Vec.step_wait.<locals>.<listcomp>", RECEIVES)
    found = hung(
        p100=[ThreadStack(100, "MainThread", [], parent)],
        p101=[ThreadStack(101, "MainThread", [], at(54, "work", RECEIVES))],
        p102=[ThreadStack(102, "MainThread", [], at(54, "work", RECEIVES))],
    )
    assert found.headline.startswith("Child process (pid 101) hung")
    waits = "the main process waits for a pipe in train.py:89 Vec.step_wait()"
    assert found.headline.endswith(f"train.py:54 work(), waiting for a pipe, while {waits}.")


def test_a_producer_that_sleeps_is_at_its_own_line_and_its_consumer_at_another() -> None:
    found = hung(
        p100=[ThreadStack(100, "MainThread", [], at(13, "main", GETS))],
        p101=[ThreadStack(101, "MainThread", SLEEP, at(6, "read_shards"))],
    )
    expected = "in train.py:6 read_shards(), waiting for a sleep to end, while the main process"
    assert expected in found.headline
    assert found.headline.endswith("a queue between processes in train.py:13 main().")
    assert found.headline.count("read_shards") == 1
    where = found.facts["where"]
    assert (where["line"], where["process"]) == (6, "child process (pid 101)")


def test_a_child_without_a_line_of_its_own_gets_no_line_of_its_parent() -> None:
    found = hung(
        p100=[ThreadStack(100, "MainThread", [], at(13, "main", GETS))],
        p101=[ThreadStack(101, "MainThread", SLEEP, [])],
    )
    expected = "It hung for 50 s in train.py:13 main(), waiting for a queue between processes."
    assert found.headline == expected
