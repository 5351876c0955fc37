"""What a process wrote over overlays: how much it is, where it lies, kept for a person, or removed.

In: the folder of layers that `overlay.enter` filled. Out: sizes, paths, a folder to look at.
Promises: only the layers are changed; what cannot be read counts as nothing and stays.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

DELETED = "deleted.txt"
_PLACES = "places.json"


def written_of(layers: Path, number: int) -> Path:
    """The folder that gets what is written to the covered folder of this number."""
    return layers / f"{number}-written"


def work_of(layers: Path, number: int) -> Path:
    """The folder in which the kernel prepares it."""
    return layers / f"{number}-work"


def note_places(layers: Path, places: Sequence[Path | None]) -> None:
    """Keep which covered folder has which number; None: a number that stands for no folder."""
    names = [os.fspath(each) if each is not None else None for each in places]
    (layers / _PLACES).write_text(json.dumps(names))


def written_at(path: Path, layers: Path) -> Path | None:
    """Return where `path` lies in the layers, or None if no overlay covers it."""
    real = path.parent.resolve() / path.name
    around = [(n, place) for n, place in _places(layers) if place in real.parents]
    if not around:
        return None
    number, place = max(around, key=lambda each: len(each[1].parts))
    return written_of(layers, number) / real.relative_to(place)


def size_of_layers(layers: Path) -> int:
    """Return how many bytes of disk they take, also what the kernel is just copying."""
    total = 0
    for folder, names, files in os.walk(layers):
        for name in (*names, *files):
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return total


def keep_layers(layers: Path, target: Path) -> bool:
    """Move what was written to `target`, each file under its full path; False if it is nothing.

    Names of files and folders that were deleted go to a file. Raises OSError.
    """
    deleted: list[str] = []
    is_any = False
    for number, place in _places(layers):
        upper = written_of(layers, number)
        if not upper.is_dir():
            continue
        deleted += _take_marks(upper, place)
        if any(upper.iterdir()):
            is_any = True
            new = target / place.relative_to("/")
            new.parent.mkdir(parents=True, exist_ok=True)
            if new.is_dir():  # a file system that is mounted below another covered folder
                shutil.copytree(upper, new, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.move(upper, new)
    if deleted:
        target.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}\n" for name in sorted(deleted))
        (target / DELETED).write_text(text, errors="surrogateescape")
    return is_any or bool(deleted)


def remove_layers(layers: Path) -> None:
    """Remove what was written below `layers`, by one trial or by several.

    The kernel leaves a folder that its owner may not read, and a program may leave such folders
    too. Only root can remove them as they are.
    """
    for folder, names, _ in os.walk(layers):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(layers, ignore_errors=True)


def outermost(folders: Sequence[Path]) -> list[Path]:
    """Return the folders that lie in no other of them, each once."""
    found: list[Path] = []
    for folder in sorted({each.resolve() for each in folders}, key=lambda each: len(each.parts)):
        if not any(folder.is_relative_to(known) for known in found):
            found.append(folder)
    return found


def _places(layers: Path) -> list[tuple[int, Path]]:
    try:
        names = json.loads((layers / _PLACES).read_text())
    except (OSError, ValueError):
        return []  # it was never entered
    return [(number, Path(name)) for number, name in enumerate(names) if name is not None]


def _take_marks(upper: Path, place: Path) -> list[str]:
    """Remove the kernel's marks of what was deleted; return the names that they stand for."""
    deleted = []
    for folder, names, files in os.walk(upper):
        here = Path(folder)
        for name in names:
            if (here / name).is_symlink():
                continue  # it leads to a folder of the user
            with suppress(OSError):
                (here / name).chmod((here / name).stat().st_mode | 0o700)
        for name in files:
            status = (here / name).lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                (here / name).unlink()
                deleted.append(str(place / here.relative_to(upper) / name))
    return deleted
