"""A deadline counts the time that this process could have worked."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from rerail.platform.deadline import Deadline, no_deadline


def spin(until: float) -> None:
    while time.monotonic() < until:
        pass


def test_what_is_skipped_is_told_once() -> None:
    deadline = Deadline(0.0)
    assert deadline.skips("the output") and deadline.skips("the output")
    assert deadline.sentence == "This is what was known after 0 s; not looked at: the output."
    assert not no_deadline().skips("anything") and no_deadline().sentence == ""


def test_waiting_for_a_processor_does_not_count() -> None:
    """Three processes on one processor: a third of the time is ours, so two thirds were waited."""
    if not hasattr(os, "sched_setaffinity") or not Path("/proc/self/schedstat").exists():
        pytest.skip("this system cannot bind a process to a processor, or does not count waiting")
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        began = time.monotonic()
        others = [multiprocessing.Process(target=spin, args=(began + 60,)) for _ in range(3)]
        for other in others:
            other.start()
        deadline = Deadline(1.0)
        cpu = time.thread_time()
        while not deadline.is_over:
            pass
        worked = time.thread_time() - cpu
        waited = time.monotonic() - began - worked
        assert waited > worked  # so it was a busy machine
        assert time.monotonic() - began > 1.5  # and it was given more than the second
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.join()


def test_at_most_twice_the_time_is_given() -> None:
    deadline = Deadline(0.1)
    time.sleep(0.2)
    assert deadline.is_over and deadline.seconds_left == 0.0
