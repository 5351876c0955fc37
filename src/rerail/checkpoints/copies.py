"""A copy of a checkpoint that may be written to, while the user's own stays as it is.

In: a file or a folder, and a place that is free. Out: the same there. Promises: the copy shares no
byte that can be written with its source: blocks are shared only where the file system copies them
on the first write (a reflink), never by a hard link, and no link in the copy leads out of it. If
there is no room, nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rerail.errors import RerailError
from rerail.wording import bytes_in_words

MOST_FILES = 100_000
# A file system that is filled to its end fails for everybody on it.
_KEPT_FREE_BYTES = 1 << 30
_KEPT_FREE_SHARE = 0.05
_FICLONE = 0x40049409  # linux/fs.h; the kernel refuses it where blocks cannot be shared

Leaves = Callable[[Path], bool]


class NoRoom(RerailError):
    """The copy does not fit; nothing of it is there."""


def copy_apart(source: Path, target: Path, leaves_out: Leaves | None = None) -> int:
    """Copy `source` to `target`, which is not there yet; how many bytes had to be written.

    `leaves_out` is asked for everything below a folder. Raises NoRoom or OSError.
    """
    try:
        return _Copying(source, leaves_out).to(target)
    except BaseException:
        remove_copies(target)
        raise


def remove_copies(path: Path) -> None:
    """Copies, and what a program has made of them."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
    except OSError:
        return
    shutil.rmtree(path, ignore_errors=True)


def size_of(path: Path, leaves_out: Leaves | None = None) -> int:
    """Of a file or of all files of a folder, links counted as what they lead to."""
    return sum(status.st_size for _, status in _files(path, leaves_out))


class _Copying:
    def __init__(self, source: Path, leaves_out: Leaves | None) -> None:
        self._top = source.resolve(strict=True)
        self._leaves_out = leaves_out
        self._left_bytes: int | None = None  # still to be written; None: not asked for yet
        self._written = 0
        self._files = 0
        self._inside: list[Path] = []  # folders that are being copied, the outermost first

    def to(self, target: Path) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._copy(self._top, target)
        return self._written

    def _copy(self, source: Path, target: Path) -> None:
        status = source.stat()
        if stat.S_ISDIR(status.st_mode):
            self._copy_folder(source, target)
        elif stat.S_ISREG(status.st_mode):  # a pipe or a socket is no part of a checkpoint
            self._copy_file(source, target, status.st_size)

    def _copy_folder(self, source: Path, target: Path) -> None:
        if source in self._inside:
            return  # a link in it leads back to it
        self._inside.append(source)
        target.mkdir()
        for each in sorted(source.iterdir()):
            if self._leaves_out is not None and self._leaves_out(each):
                continue
            copied = target / each.name
            if not each.is_symlink():
                self._copy(each, copied)
                continue
            try:
                leads_to = each.resolve(strict=True)
            except (OSError, RuntimeError):
                continue  # to nowhere: what is written there would not be written here
            if leads_to.is_relative_to(self._top):
                inside = os.path.relpath(leads_to, source)
                copied.symlink_to(inside)
            else:
                self._copy(leads_to, copied)
        self._inside.pop()
        shutil.copystat(source, target)
        target.chmod(stat.S_IMODE(target.stat().st_mode) | stat.S_IRWXU)

    def _copy_file(self, source: Path, target: Path, size: int) -> None:
        self._files += 1
        if self._files > MOST_FILES:
            raise NoRoom(f"{self._top} has more than {MOST_FILES} files")
        if not _clone(source, target):
            self._make_sure_of_room(target.parent)
            shutil.copyfile(source, target)
            self._written += size
        shutil.copystat(source, target)

    def _make_sure_of_room(self, where: Path) -> None:
        """Once, when the first file turns out to need blocks of its own."""
        if self._left_bytes is not None:
            return
        self._left_bytes = size_of(self._top, self._leaves_out)
        usage = shutil.disk_usage(where)
        kept = min(_KEPT_FREE_BYTES, int(_KEPT_FREE_SHARE * usage.total))
        if self._left_bytes > usage.free - kept:
            raise NoRoom(
                f"there is no room for a copy of {self._top}: it has"
                f" {bytes_in_words(self._left_bytes)}, and of the"
                f" {bytes_in_words(usage.free)} that are free {bytes_in_words(kept)} are kept free"
            )


def _clone(source: Path, target: Path) -> bool:
    """Whether the file system gave the copy the same blocks, to be split when one is written."""
    if sys.platform != "linux":
        return False
    import fcntl

    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:  # another file system, or one that cannot
            return False
    return True


def _files(path: Path, leaves_out: Leaves | None) -> Iterator[tuple[Path, os.stat_result]]:
    if not path.is_dir():
        yield path, path.stat()
        return
    seen = 0
    for where, folders, names in os.walk(path, followlinks=False):
        here = Path(where)
        if leaves_out is not None:
            folders[:] = [name for name in folders if not leaves_out(here / name)]
        for name in names:
            each = here / name
            seen += 1
            if seen > MOST_FILES:
                raise NoRoom(f"{path} has more than {MOST_FILES} files")
            if leaves_out is not None and leaves_out(each):
                continue
            try:
                status = each.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield each, status
