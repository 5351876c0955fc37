"""Disks: is there room where the run writes, and is mapped data on a network file system?

In: the command and its folder. Out: findings. Reads mount tables and asks file systems for their
free space; a file system that does not answer within a second is itself a finding.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from rerail.platform.patterns import linear
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.target import Target
from rerail.wording import bytes_in_words

_LITTLE_BYTES = 1 << 30
_NONE_BYTES = 16 << 20
_PATIENCE_SECONDS = 1.0
_NETWORK = linear(
    r"nfs|cifs|smb|lustre|gpfs|beegfs|ceph|glusterfs|9p|afs|fuse\.(?:sshfs|s3fs|gcsfuse|rclone|goofys)"
)
_MOST_PATHS = 16


def find_storage(target: Target) -> list[Finding]:
    folders = {str(target.cwd): "the working folder"}
    for path in _paths_of(target):
        folders.setdefault(str(path), f"{path}")
    found: list[Finding] = []
    seen: set[int] = set()
    for folder, name in folders.items():
        found += _room(folder, name, seen)
    found += _network(folders)
    temporary = target.environ.get("TMPDIR") or "/tmp"
    found += _room(temporary, f"TMPDIR ({temporary})", seen)
    return found


def _paths_of(target: Target) -> list[Path]:
    """Arguments that are paths, or `--out PATH` whose folder is there."""
    found = []
    for word in target.command[1:]:
        value = word.partition("=")[2] or word
        if "/" in value or (target.cwd / value).exists():
            path = target.cwd / value
            while not path.exists() and path != path.parent:
                path = path.parent
            if path.exists() and path != Path("/"):
                found.append(path)
    return found[:_MOST_PATHS]


def _room(folder: str, name: str, seen: set[int]) -> list[Finding]:
    answer = _ask(folder)
    if answer is None:
        return [
            Finding(
                "disk-full",
                "risky",
                f"The file system of {name} does not answer",
                "A network file system whose server is away blocks every read and write.",
                (f"stat -f {folder}",),
                (folder,),
            )
        ]
    device, free, inodes = answer
    if device in seen:
        return []
    seen.add(device)
    if free >= _LITTLE_BYTES and inodes != 0:
        return [Finding("disk-full", "fine", f"Disk of {name}: {bytes_in_words(free)} free")]
    what = f"{bytes_in_words(free)} free" if free < _LITTLE_BYTES else "no inodes left"
    return [
        Finding(
            "disk-full",
            "fatal" if free < _NONE_BYTES or inodes == 0 else "risky",
            f"Disk of {name}: {what}",
            "A checkpoint that does not fit is left half written, and the run ends there.",
            (f"make room: du -xh {folder} | sort -h | tail",),
            (folder,),
        )
    ]


def _ask(folder: str) -> tuple[int, int, int] | None:
    """Device, free bytes and free inodes (-1: not counted); None where it does not answer."""
    answers: list[tuple[int, int, int]] = []

    def ask() -> None:
        try:
            disk = os.statvfs(folder)
            inodes = disk.f_favail if disk.f_files else -1
            answers.append((os.stat(folder).st_dev, disk.f_bavail * disk.f_frsize, inodes))  # noqa: PTH116
        except OSError:
            answers.append((0, _LITTLE_BYTES, -1))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    return answers[0] if answers else None


def _network(folders: Mapping[str, str]) -> list[Finding]:
    mounts = mount_points()
    found = []
    for folder, name in folders.items():
        kind = file_system_of(folder, mounts)
        if kind and _NETWORK.match(kind):
            found.append(
                Finding(
                    "data-corrupt",
                    "risky",
                    f"{name} is on a network file system ({kind})",
                    "A mapped file there faults over the network at every first touch, and SIGBUS"
                    " ends the run if it is changed or the server goes away.",
                    ("copy the data to a local disk first, or load it instead of mapping it",),
                    (folder,),
                )
            )
    return found


def mount_points() -> list[tuple[str, str]]:
    """Mount point and kind, as the kernel lists them."""
    found = []
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        if separator:
            found.append((before.split(" ")[4].replace("\\040", " "), after.split(" ")[0]))
    return found


def file_system_of(path: str, mounts: list[tuple[str, str]]) -> str | None:
    """The kind of the longest mount point that the path lies under; a later mount wins."""
    real = os.path.realpath(path)
    best: tuple[int, str] | None = None
    for point, kind in mounts:
        is_under = point == "/" or real == point or real.startswith(point + "/")
        if is_under and (best is None or len(point) >= best[0]):
            best = (len(point), kind)
    return best[1] if best else None
