"""The folder in memory where the processes of a live run keep their black boxes and crash files.

In: a run folder. Out: its folder in memory, made, found, copied into the run folder, removed.
Promises: such a folder is private (0700), has the name of its run and says which run folder it
belongs to; nothing in a run folder can make rerail look at another place; it is made only where
the memory file system has room, with a bound for what the processes may put into it.

A disk that hangs stops whoever stores into a file that is mapped from it. In memory nothing hangs
(docs/design/what-if-the-disk-hangs.md).
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from rerail.store import layout, liveness
from rerail.store.regular_files import (
    is_own_folder,
    open_append,
    open_beginning,
    open_own,
    read_regular,
)

SHARED_MEMORY = Path("/dev/shm")
LEAST_FREE_BYTES = 256 << 20  # where less is free, the run folder is used as it always was
PART = 8  # of what is free at the start, the processes of a run may take one in so many
MOST_BYTES = 64 << 20  # and never more than this
_LEAST_FILES = 4096
_PREFIX = "rerail-"
_RUN, _SHARE = "run", "share"  # files of ours in there: whose it is, and bytes that are left
_MOST_PATH_BYTES = 16384
_MOST_FILE_BYTES = 16 << 20
_MOST_MOUNTS_BYTES = 1 << 20
_BLOCK = 4096
# Of a process, the first to be copied first: a disk may be full after the next one.
ENDINGS = (".crash", ".box", ".boxes", ".trackers", ".census", ".stacks")
_EMPTY_UNTIL_USED = (".crash", ".stacks")


def make(run: Path) -> tuple[Path, int] | None:
    """Make the folder and lock it, for as long as the descriptor is open; None: no place for it."""
    for place in _places_to_make():
        folder = place / f"{_PREFIX}{run.name}"
        try:
            bytes_left = _share_of(place)
            if bytes_left == 0:
                continue
            folder.mkdir(mode=layout.FOLDER_MODE)  # of anybody else's: the next place
        except OSError:
            continue
        try:
            folder.chmod(layout.FOLDER_MODE)
            _write(folder / _RUN, os.fsencode(run.absolute()))
            _write(folder / _SHARE, struct.pack("=q", bytes_left))
            return folder, liveness.hold(folder)
        except OSError:
            remove(folder)
    return None


def find(run: Path) -> Path | None:
    """The folder in memory of this run, if there is one that belongs to whoever owns the run."""
    try:
        owners = {os.geteuid(), run.lstat().st_uid}
        name = _PREFIX + run.resolve().name
    except OSError:
        return None
    for place in (*(_own_place(owner) for owner in owners), SHARED_MEMORY):
        folder = place / name
        if is_private(folder, owners) and _belongs_to(folder, run):
            return folder
    return None


def left_behind() -> Iterator[tuple[Path, Path | None]]:
    """Folders of ours that nobody who records holds, each with the run folder that it names."""
    for place in (_own_place(os.geteuid()), SHARED_MEMORY):
        try:
            found = [path for path in place.iterdir() if path.name.startswith(_PREFIX)]
        except OSError:
            continue
        for folder in found:
            if is_private(folder, {os.geteuid()}) and liveness.is_held(folder) is False:
                yield folder, _run_of(folder)


def files_in(folder: Path, pattern: str = "*") -> list[Path]:
    """What the processes wrote there; the first to be copied first."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only, once a second
    except OSError:
        return []
    kept = [name for name in fnmatch.filter(names, pattern) if _is_of_a_process(name)]
    kept.sort(key=lambda name: (ENDINGS.index(name[name.index(".") :]), name))
    return [folder / name for name in kept]


def _is_of_a_process(name: str) -> bool:
    """Whether it is called like `4711-98.box`."""
    numbers, dot, ending = name.partition(".")
    pid, _, start = numbers.partition("-")
    return f"{dot}{ending}" in ENDINGS and pid.isdecimal() and start.isdecimal()


def copy_changed(memory: Path, run: Path) -> OSError | None:
    """Bring the copies in the run folder up to date; what went wrong first, if anything."""
    problem: OSError | None = None
    for path in files_in(memory):
        try:
            _copy(path, run / layout.AGENT / path.name)
        except FileNotFoundError:
            continue  # a box that was given back, or a process that began anew
        except OSError as error:
            problem = problem or error
    return problem


def has_others(memory: Path, run: Path) -> bool:
    """Whether a process of the run writes into the run folder itself."""
    own = {path.name for path in files_in(memory)}
    return any(path.name not in own for path in files_in(run / layout.AGENT))


def remove(folder: Path) -> None:
    """With what is in it, if it is ours: another user could put a link in place of his own.

    Whoever still maps a file keeps that memory until it ends.
    """
    if not is_private(folder):
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _places_to_make() -> Sequence[Path]:
    own = _own_place(os.geteuid())
    is_of_this_session = os.environ.get("XDG_RUNTIME_DIR") == str(own)
    return [own, SHARED_MEMORY] if is_of_this_session and is_private(own) else [SHARED_MEMORY]


def _own_place(user: int) -> Path:
    """Where systemd keeps XDG_RUNTIME_DIR. Another value could be any folder."""
    return Path(f"/run/user/{user}")


def _share_of(place: Path) -> int:
    """How many bytes the processes of one run may take there; 0 if none."""
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    has_names = not status.f_files or status.f_favail >= _LEAST_FILES
    if free < LEAST_FREE_BYTES or not has_names or not _is_memory(place):
        return 0
    return min(MOST_BYTES, free // PART)


def _is_memory(place: Path) -> bool:
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open_beginning(Path("/proc/self/mountinfo"), _MOST_MOUNTS_BYTES) as mounts:
        for line in mounts.read().decode(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            if number in before.split(" ")[2:3]:
                return after.split(" ")[0] in ("tmpfs", "ramfs")
    return False


def is_private(folder: Path, owners: Sequence[int] | set[int] | None = None) -> bool:
    """A folder itself, that nobody but one of these users (we) may enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_theirs = status.st_uid in (owners or (os.geteuid(),))
    is_closed = status.st_mode & 0o077 == 0
    return stat.S_ISDIR(status.st_mode) and is_theirs and is_closed


def _belongs_to(folder: Path, run: Path) -> bool:
    named = _run_of(folder)
    try:
        return named is not None and named.samefile(run)
    except OSError:
        return False


def _run_of(folder: Path) -> Path | None:
    try:
        text = os.fsdecode(read_regular(folder / _RUN, _MOST_PATH_BYTES))
    except OSError:
        return None
    path = Path(text)
    return path if path.is_absolute() and "\0" not in text else None


def _write(path: Path, data: bytes) -> None:
    descriptor = open_append(path)
    try:
        layout.write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _copy(path: Path, copy: Path) -> None:
    """Write the blocks that differ. A file that says nothing is not copied."""
    with open_beginning(path, _MOST_FILE_BYTES) as file:
        data = file.read()
    if path.suffix in _EMPTY_UNTIL_USED and not data:
        return
    if path.suffix == ".boxes" and not _has_lent_box(data):
        return
    try:
        with open_beginning(copy, _MOST_FILE_BYTES) as file:
            old = file.read()
    except FileNotFoundError:
        old = b""
    if data == old:
        return
    if not is_own_folder(copy.parent):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(copy.parent))
    descriptor = open_own(copy, os.O_WRONLY | os.O_CREAT)
    try:
        for at in range(0, len(data), _BLOCK):
            block = data[at : at + _BLOCK]
            if block != old[at : at + _BLOCK] and (at < len(old) or any(block)):
                _write_at(descriptor, block, at)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _write_at(descriptor: int, data: bytes, at: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], at + written)


def _has_lent_box(data: bytes) -> bool:
    from rerail.store.blackbox import taken_boxes  # only for programs that fork

    return bool(taken_boxes(data))
