"""The fact `where`: a place in the user's own code, and the process that was there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.platform.command_line import program_call, program_in_words
from rerail.records import ProcessRecord, PythonFrame
from rerail.wording import RANK_ROLES, cut, ray_worker_in_words

_MOST_OF_A_COMMAND = 48


def where_of(
    frame: PythonFrame, process: ProcessRecord | None, rank: int | None = None
) -> dict[str, Any]:
    place = {"file": frame.file, "line": frame.line, "function": frame.function}
    return {**place, "process": process_name(process, rank)} if process else place


def process_name(process: ProcessRecord, rank: int | None = None) -> str:
    """ "main process", "rank 1", "DataLoader worker (pid 4711)": as a user would call it."""
    rank = process.rank if rank is None else rank
    if process.role == "loader-worker":
        of_rank = f" of rank {rank}" if rank is not None else ""
        number = f" {process.worker}" if process.worker is not None else ""
        return f"DataLoader worker{number}{of_rank} (pid {process.pid})"
    if rank is not None and process.role in RANK_ROLES:
        return f"rank {rank}"
    if worker := ray_worker_in_words(process.name):
        return f"{worker} (pid {process.pid})"
    if process.role == "main":
        return "main process"
    role = "child process" if process.role in ("multiprocessing", "child") else process.role
    started = _started(process.command) if process.role == "child" else ""
    return f"{role}{started} (pid {process.pid})"


def _started(command: Sequence[str]) -> str:
    """ " train.py width=64": of many that a launcher starts, its arguments tell which one it is."""
    program = program_in_words(command)
    call = program_call(command)
    if not program or call is None:
        return f" {program}".rstrip()
    words = [*command[command.index(call.target) + 1 :]] if call.target in command else []
    return " " + cut(" ".join([program, *words]), _MOST_OF_A_COMMAND)


def last_place_of(run: RecordedRun, pid: int | None) -> dict[str, Any]:
    """Where a process that was killed for memory was last seen, and how long before its end.

    `where` and `seen_seconds_before`; nothing if memory filled up between two looks.
    """
    process = next((p for p in run.processes if p.pid == pid), None)
    seen = [e.data for e in run.events_of("memory-place") if e.data.get("pid") == pid]
    if process is None or process.ended_t_seconds is None or not seen:
        return {}
    last = seen[-1]
    frame = PythonFrame(
        str(last.get("file")), int(last.get("line") or 0), str(last.get("function"))
    )
    taken = last.get("taken_t")
    if not isinstance(taken, (int, float)):
        return {}
    return {
        "where": where_of(frame, process, run.rank_of(process)),
        "seen_seconds_before": round(max(process.ended_t_seconds - taken, 0.0), 1),
    }
