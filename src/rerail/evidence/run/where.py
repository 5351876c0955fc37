"""The fact `where`: a place in the user's own code, and the process that was there."""

from __future__ import annotations

from typing import Any

from rerail.records import ProcessRecord, PythonFrame
from rerail.wording import RANK_ROLES, ray_worker_in_words


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
    role = "child process" if process.role == "multiprocessing" else process.role
    return f"{role} (pid {process.pid})"
