"""Whom a process waits for in vain: a worker or a thread of it that is gone.

In: a recorded run, a stall of it and the place where a process stands. Out: how the worker or the
thread ended, or None. A pool, a queue or a pipe of `multiprocessing` does not notice that its
writer is dead, nor does a queue whose thread has raised.
"""

from __future__ import annotations

from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.recorder import Place
from rerail.records import Stall

_WORKERS = ("multiprocessing", "loader-worker")
_FOR_A_THREAD = ("queue", "event", "future", "thread", "lock")
_USED_UP_SECONDS = 60.0  # what a thread has put into a queue lasts for a while after its end


def lost_worker(run: RecordedRun, stall: Stall, place: Place) -> dict[str, Any] | None:
    """The last worker that died before the stall was noticed, or else the thread that raised."""
    waits = place.waits
    if waits is None:
        return None
    if waits.is_for_a_process or waits.kind == "queue":
        died = [
            process
            for process in run.processes
            if process.parent_pid == place.pid
            and process.role in _WORKERS
            and (process.signal or process.exit_code)
            and process.ended_t_seconds is not None
            and process.ended_t_seconds < stall.t_seconds
        ]
        last = max(died, key=lambda process: process.ended_t_seconds or 0.0, default=None)
        if last is not None:
            return {
                "pid": last.pid,
                "role": last.role,
                "signal": last.signal,
                "exit_code": last.exit_code,
                "t_seconds": last.ended_t_seconds,
            }
    return _lost_thread(run, stall, place) if waits.kind in _FOR_A_THREAD else None


def _lost_thread(run: RecordedRun, stall: Stall, place: Place) -> dict[str, Any] | None:
    box = run.box_of(run.by_key[place.key]) if place.key in run.by_key else None
    if box is None or not box.exception_thread or box.exception_t_seconds is None:
        return None
    begun = stall.t_seconds - stall.silent_seconds
    if not begun - _USED_UP_SECONDS <= box.exception_t_seconds < stall.t_seconds:
        return None
    return {
        "thread": box.exception_thread,
        "exception": box.exception_type,
        "t_seconds": box.exception_t_seconds,
    }
