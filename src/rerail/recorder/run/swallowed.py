"""A death inside the command that the command itself outlived, and that somebody should hear of.

In: the processes of a run without its root, and the black box of each. Out: a sentence's end, or
None. Told are: a process that died of a fault (a crash is never meant), and a training that failed
inside a script which went on, unless the same program was started again and ended well. Not told:
what frameworks do with workers that they no longer need (SIGTERM, SIGKILL), and a test such as
`python -c "import x"` that fails on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rerail.records import CRASH_SIGNALS, BlackBox, ProcessRecord

_PROGRAMS = {"main", "rank"}  # roles of a program of its own, not of a framework's worker
LONG_SECONDS = 10.0  # an uncaught exception after this time was no quick test

BoxOf = Callable[[ProcessRecord], BlackBox | None]


def fault_inside(processes: Sequence[ProcessRecord]) -> str | None:
    """A process that died of a fault, whether or not the command went on."""
    died = next((process for process in processes if process.signal in CRASH_SIGNALS), None)
    return f"its process {_name(died)} was killed by {died.signal}" if died else None


def swallowed_death(processes: Sequence[ProcessRecord], box_of: BoxOf) -> str | None:
    if (fault := fault_inside(processes)) is not None:
        return fault
    for process in processes:
        if process.role not in _PROGRAMS or not _has_failed(process):
            continue
        if not _was_done_again(process, processes) and _was_training(process, box_of(process)):
            how = process.signal or f"exit code {process.exit_code}"
            return f"the training in its process {_name(process)} ended with {how}"
    return None


def _name(process: ProcessRecord) -> str:
    return f"{process.name or 'a child'} ({process.pid})"


def _has_failed(process: ProcessRecord) -> bool:
    return process.signal is not None or (process.exit_code or 0) != 0


def _was_done_again(process: ProcessRecord, processes: Sequence[ProcessRecord]) -> bool:
    return any(
        other.command == process.command
        and other.exit_code == 0
        and other.started_t_seconds >= (process.ended_t_seconds or process.started_t_seconds)
        for other in processes
    )


def _was_training(process: ProcessRecord, box: BlackBox | None) -> bool:
    if box is None:
        return False
    if box.optimizer_steps or box.backward_calls or box.batches:
        return True
    lived = (process.ended_t_seconds or 0.0) - process.started_t_seconds
    return box.exception_type is not None and lived >= LONG_SECONDS
