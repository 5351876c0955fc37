"""Is somebody still writing this run?

In: a run folder. Out: yes or no. Whoever writes a run holds a lock on its folder, and the kernel
lets go of it when that process ends, however it ends. The lock is seen from other containers on
the same kernel, where a pid means nothing. Where file systems have no locks, the recorder's pid and
start time answer, and failing those (another machine's store) how lately the folder was written.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from rerail.platform.proc_files import read_start_ticks, read_stat
from rerail.records import RunInfo
from rerail.store import layout

# A recorder on another machine writes vitals every second; a clock of a file server may be off.
QUIET_SECONDS = 120.0


def hold(folder: Path) -> int:
    """Lock the folder for as long as this descriptor is open; -1 where that is not possible.

    The descriptor is closed on exec, so that the recorded command does not keep its own run alive.
    """
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return -1
    for _ in range(50):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                break
            time.sleep(0.001)  # a reader that is just asking holds it for microseconds
    os.close(descriptor)
    return -1


def is_live(folder: Path, info: RunInfo) -> bool:
    """Whether a recorder or its guardian is at work on this folder."""
    if info.state != "running":
        return False
    held = is_held(folder)
    if held:
        return True
    if info.recorder_scope and info.recorder_scope == scope():
        return has_process(info.recorder_pid, info.recorder_start_ticks)
    return held is None and _was_written_lately(folder)


def is_held(folder: Path) -> bool | None:
    """None where the file system has no locks."""
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        # Shared, so that two readers who ask at once do not take each other for a writer.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return True if error.errno == errno.EWOULDBLOCK else None
    finally:
        os.close(descriptor)


def scope() -> str:
    """Where a pid of ours means something: this boot and this pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - not a real path
    except OSError:
        return f"{os.uname().nodename} {os.uname().sysname}"


def start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat; 0 where there is no /proc or no such process."""
    return read_start_ticks(pid) or 0


def has_process(pid: int, ticks: int) -> bool:
    if pid <= 0:
        return False  # to the kernel a group of processes, or all of them
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    stat = read_stat(pid)
    if stat is None:  # no /proc here, or it went just now
        return ticks == 0
    return not stat.is_over and ticks in (0, stat.start_ticks)


def _was_written_lately(folder: Path) -> bool:
    newest = 0.0
    for name in (layout.EVENTS, layout.OUTPUT, layout.VITALS_RECENT, layout.VITALS):
        try:
            newest = max(newest, (folder / name).stat().st_mtime)
        except OSError:
            continue
    return time.time() - newest < QUIET_SECONDS
