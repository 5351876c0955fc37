"""Which file system was full: the facts `full_mount` and `full_mount_bytes`.

In: a recorded run and what it said. Out: the mount point of the path that could not be written or,
where no path was named, the one file system that has no room; None where several have none, and for
a run of another machine, whose mounts are not those of this one. Promises: only what is full while
it is looked at, right after the end of the run, is called so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear

# The last one is what torch.save says when the system has written less than it was given.
_FULL = linear(
    r"No space left on device|[Dd]isk quota exceeded|ENOSPC|EDQUOT|unexpected pos \d+ vs \d+"
)
_PATH = linear(r"(?:on device|exceeded): ['\"](?P<path>/[^'\"]+)")
_LEAST_SHARE = 0.01  # of its blocks or inodes: below, a file system is full
_MOST_MOUNTS = 500
_NEVER_WRITTEN = ("proc", "sysfs", "cgroup", "cgroup2", "squashfs", "iso9660", "devpts", "mqueue")


def full_mount_facts(run: RecordedRun, said: str, in_hand: str) -> dict[str, Any]:
    """`in_hand`: the file that was being written, if the program is known to have held one."""
    mount = full_mount(run, said, in_hand)
    if mount is None:
        return {}
    try:
        room = os.statvfs(mount)
    except OSError:
        return {"full_mount": mount}
    return {"full_mount": mount, "full_mount_bytes": room.f_blocks * room.f_frsize}


def full_mount(run: RecordedRun, said: str, in_hand: str = "") -> str | None:
    if not _FULL.search(said) or not run.is_of_this_machine:
        return None
    named = _PATH.search(said)
    if named is not None:
        return _mount_of(named.group("path"))
    if in_hand:
        mount = _mount_of(str(Path(run.info.cwd, in_hand)))
        if mount is not None and _is_full(mount):
            return mount
    full = [mount for mount in writable_mounts() if _is_full(mount)]
    return full[0] if len(full) == 1 else None


def _mount_of(path: str) -> str | None:
    try:
        place = Path(path).resolve()
        while not os.path.ismount(place):
            place = place.parent
        return str(place)
    except (OSError, ValueError, RuntimeError):
        return None


def writable_mounts() -> list[str]:
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()[:_MOST_MOUNTS]
    except OSError:
        return []
    found = []
    for line in lines:
        _, place, kind, options, *_ = [*line.split(" "), "", "", "", ""]
        if kind not in _NEVER_WRITTEN and "rw" in options.split(","):
            found.append(place.replace("\\040", " "))
    return list(dict.fromkeys(found))


def _is_full(mount: str) -> bool:
    try:
        room = os.statvfs(mount)
    except OSError:
        return False
    return (room.f_blocks > 0 and room.f_bavail < _LEAST_SHARE * room.f_blocks) or (
        room.f_files > 0 and room.f_favail < _LEAST_SHARE * room.f_files
    )
