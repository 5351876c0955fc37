"""Processes of a study that nobody looks after any more.

In: the folder of a study (and perhaps one cell). Out: every process that was started for it is
gone. Each carries the study's folder and its cell in its environment, so that it is found even if
its recorder was killed before it could write the process down, and a process of anybody else never
is. A cell must not be started, nor its files be collected, while one of its processes may write.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rerail.platform.proc_files import read_stat
from rerail.store import liveness

STUDY_VARIABLE = "RERAIL_STUDY"
CELL_VARIABLE = "RERAIL_CELL"
PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_RECORDER = b"rerail.scheduling.recording_process"

Process = tuple[int, int]  # pid and start ticks


def end_leftovers(study: Path, cell: str | None = None, patience: float = PATIENCE_SECONDS) -> int:
    """End what is left, gently at first; how many there were. Returns when none is alive."""
    found = _find(study, cell)
    if not found:
        return 0
    commands = [process for process in found if not _is_recorder(process)]
    _signal(commands, signal.SIGTERM)
    if _wait(lambda: _living(found), patience):
        _signal(_living(commands), signal.SIGKILL)
        # A recorder whose command has ended writes down how, and ends by itself.
        if _wait(lambda: _living(found), patience):
            _signal(_living(found), signal.SIGKILL)
            _wait(lambda: _living(found), patience)
    later = _find(study, cell)  # what they started while they ended
    if later:
        _signal(later, signal.SIGKILL)
        _wait(lambda: _living(later), patience)
    return len(found)


def wait_for_stragglers(study: Path, cell: str, seconds: float) -> bool:
    """Whether the cell's processes are all gone, if need be after waiting so long."""
    return not _wait(lambda: _find(study, cell), seconds)


def _find(study: Path, cell: str | None) -> list[Process]:
    wanted = {f"{STUDY_VARIABLE}={study}".encode()}
    if cell is not None:
        wanted.add(f"{CELL_VARIABLE}={cell}".encode())
    own = {os.getpid(), *_ancestors()}
    return [
        (pid, liveness.start_ticks(pid))
        for pid, environ in _environments()
        if pid not in own and wanted <= set(environ) and liveness.has_process(pid, 0)
    ]


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    if Path("/proc/self/environ").exists():
        for entry in os.listdir("/proc"):  # noqa: PTH208 - names only
            if entry.isdigit():
                try:
                    yield int(entry), Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
        return
    import psutil

    for process in psutil.process_iter():
        try:
            pairs = process.environ().items()
        except (psutil.Error, OSError):
            continue
        yield process.pid, [f"{name}={value}".encode() for name, value in pairs]


def _ancestors() -> set[int]:
    """Whoever started us is not to be ended, also where one study's cell is another study."""
    found: set[int] = set()
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        stat = read_stat(pid)
        pid = stat.parent_pid if stat else 0
    return found


def _is_recorder(process: Process) -> bool:
    try:
        return _RECORDER in Path(f"/proc/{process[0]}/cmdline").read_bytes()
    except OSError:
        return False


def _living(processes: list[Process]) -> list[Process]:
    return [each for each in processes if liveness.has_process(*each)]


def _signal(processes: list[Process], number: int) -> None:
    for pid, ticks in processes:
        if not liveness.has_process(pid, ticks):
            continue
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _wait(remaining: Callable[[], list[Process]], seconds: float) -> bool:
    """Whether any is left after at most so long."""
    deadline = time.monotonic() + seconds
    while remaining():
        if time.monotonic() >= deadline:
            return True
        time.sleep(_POLL_SECONDS)
    return False
