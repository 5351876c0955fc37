"""A copy of the installed packages that shares what is never written in place.

In: folders with packages. Out: the same files in another folder. Promises: code (Python, compiled
Python, native libraries, programs) is hard-linked where the file system allows it: Python and
pip replace such files and never write into them, so nothing done to the copy reaches the original.
(uv does write into a file that is there, in some versions and settings, so it is used before the
copy is made and not after.) All else, which a program might write to, is copied. Times are kept, so
that compiled Python files stay valid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.experiments.environments.own import OwnEnvironment
from rerail.platform.command_line import is_python
from rerail.platform.distributions import normalised
from rerail.platform.interpreter import shebang
from rerail.platform.patterns import linear

_CODE = linear(r"\.(?:so(?:\.[\w.]+)?|dylib|pyc?|pyi|pxd|h|hpp|cuh?|c|cpp|cc|inc|a)$")
_METADATA = (".dist-info", ".egg-info")
_MOST_SCRIPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Size:
    shared_bytes: int
    copied_bytes: int


def size_of_copy(own: OwnEnvironment, target: Path) -> Size:
    """What a copy into this folder shares with the original, and what it takes."""
    shared = copied = 0
    for folder in own.folders:
        is_near = folder.stat().st_dev == target.stat().st_dev
        for entry in _walk(folder):
            status = entry.stat(follow_symlinks=False)
            if is_near and _is_code(entry.name, status.st_mode):
                shared += status.st_size
            else:
                copied += status.st_size
    return Size(shared, copied)


def _walk(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)
            else:
                yield entry


def copy_packages(own: OwnEnvironment, target: Path, without: Collection[str]) -> None:
    """All packages but these, into a folder that has the new versions of them already.

    Nothing that is there is replaced: the first folder wins over those behind it.
    """
    skipped = {path for name in without for path in own.files_of(name)}
    gone = set(without)
    for folder in own.folders:
        there = {_package_of(name) for name in os.listdir(target)} - {None}  # noqa: PTH208
        with os.scandir(folder) as entries:
            for entry in entries:
                name = _package_of(entry.name)
                if name is None or (name not in there and name not in gone):
                    _copy(entry, str(target / entry.name), skipped)


def copy_metadata(folders: Sequence[Path], target: Path) -> None:
    """Only what says which packages are installed: a resolver needs no more."""
    there: set[str | None] = set()
    for folder in folders:
        before = set(there)
        for entry in os.scandir(folder):
            name = _package_of(entry.name)
            if name is not None and name not in before:
                there.add(name)
                _copy(entry, str(target / entry.name), ())


def copy_package(own: OwnEnvironment, name: str, target: Path) -> None:
    """The files of one package, by its own list of them; those outside the folder are left out."""
    folder = Path(own.packages[name].folder)
    for info in folder.glob("*.dist-info"):
        if _package_of(info.name) != name:
            continue
        for line in (info / "RECORD").read_text(errors="replace").splitlines():
            path = line.partition(",")[0].strip('"')
            if path.startswith(("..", "/")) or not (folder / path).is_file():
                continue
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / path, target / path)


def _package_of(name: str) -> str | None:
    """The package whose metadata a folder of this name holds."""
    stem, dot, suffix = name.rpartition(".")
    return normalised(stem.partition("-")[0]) if dot + suffix in _METADATA else None


def _copy(entry: os.DirEntry[str], place: str, skipped: Collection[str]) -> None:
    if entry.path in skipped:
        return
    if entry.is_dir(follow_symlinks=False):
        # A folder without a file in it would be imported as a package.
        with os.scandir(entry.path) as entries:
            for inner in entries:
                _copy(inner, f"{place}/{inner.name}", skipped)
    elif not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - thousands
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)  # noqa: PTH115, PTH211
        elif entry.is_file():
            _copy_file(entry, place)


def _copy_file(entry: os.DirEntry[str], place: str) -> None:
    status = entry.stat()
    if _is_code(entry.name, status.st_mode):
        with contextlib.suppress(OSError):  # another file system, or files of another user
            os.link(entry.path, place)
            return
    shutil.copyfile(entry.path, place)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.chmod(place, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)  # noqa: PTH101


def _is_code(name: str, mode: int) -> bool:
    return bool(mode & stat.S_IXUSR) or _CODE.search(name) is not None


def copy_scripts(own: OwnEnvironment, target: Path, without: Collection[str]) -> None:
    """Console scripts such as torchrun, which name their interpreter in the first line."""
    skipped = {path for name in without for path in own.files_of(name)}
    own_pythons = {own.interpreter.path, own.interpreter.real_path}
    for file in sorted((own.prefix / "bin").iterdir()):
        place = target / "bin" / file.name
        if is_python(file.name) or os.path.lexists(place) or not file.is_file():
            continue
        if str(file) in skipped:
            continue
        first = shebang(file)
        if first is None or file.stat().st_size > _MOST_SCRIPT_BYTES or not is_python(first[0]):
            continue
        is_own = first[0] in own_pythons or Path(first[0]).parent == own.prefix / "bin"
        if is_own:
            rest = file.read_bytes().partition(b"\n")[2]
            place.write_bytes(f"#!{target / 'bin' / 'python'}\n".encode() + rest)
            place.chmod(0o755)
