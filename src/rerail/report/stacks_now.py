"""The stacks of a run as `rerail stacks` shows them, now or as they were last taken.

In: a recorded run, and the stall that holds the stacks. Out: lines, or a document. The process that
the others wait for comes first, Python before native code, the user's own lines marked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerail.evidence import RecordedRun, read_crashes, read_stalls
from rerail.platform.os_text import printable
from rerail.platform.own_code import is_own
from rerail.records import Stall, ThreadStack
from rerail.report.stall_stacks import process_lines
from rerail.wording import sentence

SCHEMA = 1


def lines_of(run: RecordedRun, stall: Stall) -> list[str]:
    lines = []
    for observation in read_stalls(replace(run, stalls=[stall])):
        lines += process_lines(observation, stall)
    return [printable(line) for line in lines]


def last_taken(run: RecordedRun) -> tuple[Stall, str] | None:
    """Of a run that is over: the stacks of its crash, or of its last stall; and which it is."""
    if run.crashes:
        crash = run.crashes[-1]
        key = f"{crash.pid}-{crash.start_ticks}"
        what = read_crashes(replace(run, crashes=[crash]))[0].text
        return Stall(crash.t_seconds or 0.0, 0.0, 0.0, "report", {key: crash.threads}), what
    if run.stalls:
        stall = run.stalls[-1]
        return stall, sentence(f"taken after {stall.silent_seconds:.0f} s without progress")
    return None


def document_of(run: RecordedRun, stall: Stall, taken: str) -> dict[str, Any]:
    seen = {o.data["pid"]: o.data for o in read_stalls(replace(run, stalls=[stall]))}
    processes = []
    for key, threads in stall.stacks.items():
        pid = int(key.partition("-")[0])
        data = seen.get(pid, {})
        processes.append(
            {
                "pid": pid,
                "role": data.get("role"),
                "rank": data.get("rank"),
                "waits_for": data.get("waits_for"),
                "where": data.get("where"),
                "holder": data.get("holder"),
                "threads": [_thread(thread) for thread in threads],
            }
        )
    return {
        "schema": SCHEMA,
        "run": run.info.id,
        "taken": taken,
        "t_seconds": round(stall.t_seconds, 3),
        "processes": processes,
    }


def _thread(thread: ThreadStack) -> dict[str, Any]:
    return {
        "id": thread.thread_id,
        "name": thread.name,
        "waits_for": thread.waits_for,
        "python": [
            {"file": f.file, "line": f.line, "function": f.function, "is_own": is_own(f.file)}
            for f in thread.python
        ],
        "native": [{"library": f.library, "function": f.function} for f in thread.native],
    }
