"""What will the rest of the study take, and does the machine have it?

In: what finished attempts took (usage), and the machine as it is. Out: a `Need`, sentences for a
person, and the shortages that are a reason not to start another cell. Pure but for `read_machine`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.wording import bytes_in_words, seconds_in_words

SPARE_DISK_BYTES = 64 * 2**20  # for the journal, records and whatever else uses the disk
SMALL_SHM_BYTES = 2**20  # left in /dev/shm and not worth a word
_NEAR = 0.8


@dataclass(frozen=True)
class Need:
    """Per cell the most that any took so far; `cells_left` are still to be run."""

    cells_left: int
    jobs: int
    seconds: float
    memory_bytes: int
    disk_bytes: int
    shm_bytes: int
    fds: int

    @property
    def total_seconds(self) -> float:
        rounds = -(-self.cells_left // max(1, self.jobs))
        return rounds * self.seconds


@dataclass(frozen=True)
class Machine:
    memory_bytes: int | None  # available
    disk_bytes: int | None  # free where the study writes
    shm_bytes: int | None  # free in /dev/shm
    fds: int | None  # soft limit of a process


def estimate(usages: Sequence[dict[str, float]], cells_left: int, jobs: int) -> Need | None:
    """None until a cell has been measured."""
    if not usages:
        return None

    def most(name: str) -> float:
        return max((usage.get(name, 0.0) for usage in usages), default=0.0)

    return Need(
        cells_left=cells_left,
        jobs=min(jobs, max(1, cells_left)),
        seconds=sum(usage.get("seconds", 0.0) for usage in usages) / len(usages),
        memory_bytes=int(most("peak_rss_bytes")),
        disk_bytes=int(most("disk_bytes")),
        shm_bytes=int(most("shm_bytes")),
        fds=int(most("peak_fds")),
    )


def read_machine(folder: Path) -> Machine:
    from rerail.scheduling import available_bytes

    return Machine(
        memory_bytes=available_bytes(),
        disk_bytes=_free(folder),
        shm_bytes=_free(Path("/dev/shm")),
        fds=_fd_limit(),
    )


def in_words(need: Need, machine: Machine) -> list[str]:
    """What it will take beside what there is, one line each."""
    n = need.cells_left
    lines = [
        f"{n} cell{'s' * (n != 1)} to go, {need.jobs} at a time: about"
        f" {seconds_in_words(need.total_seconds)}"
    ]
    rows = [
        ("memory", need.jobs * need.memory_bytes, machine.memory_bytes),
        ("disk", need.cells_left * need.disk_bytes, machine.disk_bytes),
        ("shared memory", need.jobs * need.shm_bytes, machine.shm_bytes),
    ]
    for what, wanted, there in rows:
        if wanted and there is not None:
            verdict = "enough" if wanted <= there else "NOT ENOUGH"
            lines.append(
                f"{what}: {bytes_in_words(wanted)} needed, {bytes_in_words(there)} free: {verdict}"
            )
    if machine.fds and need.fds >= _NEAR * machine.fds:
        lines.append(f"open files: {need.fds} at most, the limit is {machine.fds}: ulimit -n")
    return lines


def shortage(need: Need | None, machine: Machine, running: int) -> str | None:
    """Why one more cell must not be started now."""
    disk = (need.disk_bytes if need else 0) * (running + 1) + SPARE_DISK_BYTES
    if machine.disk_bytes is not None and machine.disk_bytes < disk:
        return (
            f"the disk has {bytes_in_words(machine.disk_bytes)} free,"
            f" the next cell needs {bytes_in_words(disk)}"
        )
    if need and need.shm_bytes and machine.shm_bytes is not None:
        shm = need.shm_bytes * (running + 1)
        if machine.shm_bytes < shm:
            return (
                f"/dev/shm has {bytes_in_words(machine.shm_bytes)} free,"
                f" the next cell needs {bytes_in_words(shm)}"
            )
    return None


def _free(path: Path) -> int | None:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free if path.is_dir() else None
    except OSError:
        return None


def _fd_limit() -> int | None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def system_files() -> tuple[int, int] | None:
    """Open files of the whole machine, and how many there may be."""
    try:
        used, _, most = Path("/proc/sys/fs/file-nr").read_text().split()
    except (OSError, ValueError):
        return None
    return int(used), int(most)


def shm_files(owner: int | None = None) -> dict[str, int]:
    """What lies in /dev/shm and whose it is: left behind there, it is memory lost to the next."""
    found = {}
    own = os.getuid() if owner is None else owner
    for path in Path("/dev/shm").glob("*") if Path("/dev/shm").is_dir() else ():
        try:
            status = path.lstat()
        except OSError:
            continue
        if status.st_uid == own and not path.is_dir():
            found[path.name] = status.st_size
    return found
