"""Which folders may a program write to, and which files did its earlier runs write?

In: the command, its working folder, the pattern of checkpoints, and when it ran. Out: folders to
put overlays over, and files that changed while it ran. Promises: what is looked through is bounded
in number and time; folders of the system are not named.
"""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rerail.experiments.trials.outputs import Period
from rerail.platform.layers import outermost
from rerail.store import Store, fingerprint

_MAGIC = "*?["
# Folders of the system, which an argument may name but which are not the user's own.
_NOT_COVERED = tuple(map(Path, ("/", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var")))
_SYSTEM = tuple(
    map(Path, ("/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/usr"))
)
# Programs meet others there, and the layers lie there: only parts of these are covered.
_MEETING_PLACES = tuple(map(Path, ("/tmp", "/var", "/dev")))
_TEMPORARY = tuple(map(Path, ("/tmp", "/var/tmp")))
_SHARED_MEMORY = Path("/dev/shm")
_MOST_CHILDREN = 200
_MOST_LOOKED_AT, _MOST_LOOKED_AT_EACH = 50_000, 5_000
_MOST_SECONDS, _MOST_CPU_SECONDS = 5.0, 1.0  # on a machine with more to do than processors
_OURS = "rerail-"  # begins the names of temporary folders of rerail
_MOST_RUNS = 5
_MOST_FOLDERS = 32


def folders_of(cwd: Path, pattern: str | None) -> list[Path]:
    """The working folder, the top of its git repository, and the folder of the checkpoints."""
    found = [cwd]
    found += [each for each in cwd.resolve().parents if (each / ".git").exists()][:1]
    if pattern is not None:
        place = cwd / Path(pattern).expanduser()
        while any(sign in str(place) for sign in _MAGIC) or not place.is_dir():
            if place == place.parent:
                return found
            place = place.parent
        found.append(place)
    return [each for each in found if each.resolve() != Path("/")] or [cwd]


def folders_named(command: Sequence[str], cwd: Path) -> list[Path]:
    """The folders that arguments name, or that hold what they name, if the user may write there."""
    found = []
    for word in command[1:]:
        value = word.partition("=")[2] or word
        if "/" not in value or "://" in value or "\n" in value:
            continue
        with suppress(OSError, ValueError, RuntimeError):
            place = (cwd / Path(value).expanduser()).resolve()
            folder = place if place.is_dir() else place.parent
            if folder not in _NOT_COVERED and folder.is_dir() and _is_ours(folder):
                found.append(folder)
    return found


def folders_linked(cwd: Path, store: Path, apart_from: Path) -> list[Path]:
    """The folders that links below the working folder lead out to, also by a file in them.

    Not what holds `apart_from`. The search for links is bounded.
    """
    top, found = cwd.resolve(), []
    for path, status in _walk([top], store.resolve()):
        if stat.S_ISLNK(status.st_mode):
            with suppress(OSError, RuntimeError):
                place = path.resolve()
                folder = place if place.is_dir() else place.parent
                is_own = folder not in (*_NOT_COVERED, *_TEMPORARY) and _is_ours(folder)
                if is_own and not folder.is_relative_to(top):
                    found.append(folder)
    left = [Path(tempfile.gettempdir()).resolve(), apart_from.resolve()]
    return [part for each in outermost(found) for part in _parts_without(each, left)][
        :_MOST_FOLDERS
    ]


def own_places(apart_from: Path) -> list[Path]:
    """Wherever else the user may write: home, disks for data. Not what holds `apart_from`."""
    found = []
    for top in _folders_in(Path("/")):
        if top not in _MEETING_PLACES:
            found += [top] if _is_ours(top) else [p for p in _folders_in(top) if _is_ours(p)]
    with suppress(OSError, RuntimeError):
        home = Path.home().resolve()
        found += [home] if home not in _NOT_COVERED and _is_ours(home) else []
    left = [Path(tempfile.gettempdir()).resolve(), apart_from.resolve()]
    return [part for each in found for part in _parts_without(each, left)]


def _parts_without(folder: Path, left: Sequence[Path]) -> list[Path]:
    """The folder, or the folders in it, and so on, that hold none of `left`."""
    if folder in left:
        return []
    if not any(path.is_relative_to(folder) for path in left):
        return [folder]
    return [part for each in _folders_in(folder) for part in _parts_without(each, left)]


def periods_of(store: Store, command: Sequence[str], cwd: str) -> list[Period]:
    """When the newest runs of this command on record went on."""
    wanted = fingerprint(command, cwd)
    found = []
    for summary in store.summaries():
        info = summary.info
        if info.fingerprint == wanted:
            end = info.started_unix + (info.elapsed_seconds or 0.0)
            found.append(Period(info.started_unix, end))
            if len(found) >= _MOST_RUNS:
                break
    return found


@dataclass(frozen=True)
class Change:
    """A file that changed, or a folder in which something was made or removed."""

    path: Path
    is_folder: bool
    modified_unix: float


def changed_in(
    folders: Iterable[Path], periods: Sequence[Period], apart_from: Path
) -> list[Change]:
    """What changed there in these times, newest first. Files of other programs may be among it."""
    found = [
        Change(path, stat.S_ISDIR(status.st_mode), status.st_mtime)
        for path, status in _walk(folders, apart_from.resolve())
        if status.st_uid == os.getuid() and any(each.holds(status.st_mtime) for each in periods)
    ]
    return sorted(found, key=lambda each: -each.modified_unix)


def shared_folders_changed(
    periods: Sequence[Period], cwd: Path, apart_from: Path, layers: Path
) -> list[Path]:
    """Folders in the temporary ones, in /var and in shared memory in which something changed then.
    Not what holds `layers`.

    Not those in which a program meets others: an overlay would part them.
    """
    if not periods:
        return []
    temporary = Path(tempfile.gettempdir()).resolve()
    tops = outermost([temporary, *_TEMPORARY, _SHARED_MEMORY])
    beside = cwd.resolve().parent
    starts = [beside] if any(top in beside.parents for top in tops) else []
    starts += [each for top in (*tops, Path("/var")) for each in _folders_in(top)]
    starts = [each for each in starts if each not in tops and not each.name.startswith(_OURS)]
    found: list[Path] = []
    for change in changed_in(starts, periods, apart_from):
        folder = change.path if change.is_folder else change.path.parent
        is_around = any(each.is_relative_to(folder) for each in (layers, temporary, *tops))
        if folder not in found and not is_around and not _has_meeting_point(folder):
            found.append(folder)
    apart = outermost(found)
    return [each for each in found if each in apart][:_MOST_FOLDERS]


def _is_ours(folder: Path) -> bool:
    is_of_system = any(folder.is_relative_to(each) for each in _SYSTEM)
    is_in_memory = _SHARED_MEMORY in folder.parents
    return (is_in_memory or not is_of_system) and os.access(folder, os.W_OK)


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found)[:_MOST_CHILDREN]


def _has_meeting_point(folder: Path) -> bool:
    try:
        kinds = [path.lstat().st_mode for path in folder.iterdir()]
    except OSError:
        return True
    return any(stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind) for kind in kinds)


def _walk(folders: Iterable[Path], apart_from: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What lies in all of them, then what lies one folder deeper, and so on.

    On their own file systems, without git's folders and our own; links are not followed.
    """
    until, cpu_until = time.monotonic() + _MOST_SECONDS, time.thread_time() + _MOST_CPU_SECONDS
    left, left_in = _MOST_LOOKED_AT, Counter[Path]()
    waiting = deque((top, top, _device(top)) for top in folders)
    while waiting and left and time.monotonic() < until and time.thread_time() < cpu_until:
        folder, top, device = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in itertools.islice(entries, min(left, _MOST_LOOKED_AT_EACH - left_in[top])):
                left -= 1
                left_in[top] += 1
                path = Path(entry.path)
                if entry.name.startswith(_OURS) or entry.name == ".git" or path == apart_from:
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield path, status
                    if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                        waiting.append((path, top, device))


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None
