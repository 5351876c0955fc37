"""Which checkpoint to go on from: the newest that holds together.

In: a pattern as the user typed it. Out: a `Choice`, with every newer one that was passed over and
why. Nothing is moved, renamed or deleted.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median

from rerail.checkpoints.check import UNKNOWN, Soundness, check_checkpoint
from rerail.checkpoints.parts import ranks_in

# A file of unknown format this much smaller than its siblings was cut off while it was written.
_SMALL_SHARE = 0.5
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class Choice:
    chosen: Soundness | None
    skipped: tuple[Soundness, ...] = ()  # newer than the chosen one
    found: int = 0


def choose_checkpoint(
    pattern: str,
    cwd: Path,
    refused: dict[Path, str] | None = None,
    bad_since_unix: float | None = None,
    until_unix: float | None = None,
) -> Choice:
    """The newest that would load.

    `refused`: those that the program itself could not load, and why. `bad_since_unix`: what was
    written after this moment holds weights that are not numbers any more. `until_unix`: what was
    written later is not of the run that is asked about, and is not looked at.
    """
    paths = find_checkpoints(pattern, cwd, until_unix)
    skipped: list[Soundness] = []
    for path in paths:
        why = (refused or {}).get(path)
        found = Soundness(path, "checkpoint", why) if why else _check(path, paths, cwd)
        if found.is_sound and bad_since_unix and found.modified_ns / 1e9 >= bad_since_unix:
            found = replace(found, problem="it was written after the loss was no longer finite")
        if found.is_sound:
            return Choice(found, tuple(skipped), len(paths))
        skipped.append(found)
    return Choice(None, tuple(skipped), len(paths))


def find_checkpoints(pattern: str, cwd: Path, until_unix: float | None = None) -> list[Path]:
    """Newest first, each once, as the pattern spells them (relative to `cwd`)."""
    names = glob.glob(os.path.expanduser(pattern), root_dir=cwd, recursive=True)  # noqa: PTH111, PTH207
    found: dict[tuple[int, int], tuple[tuple[int, list[int], bool], Path]] = {}
    for name in sorted(names):
        path = Path(name)
        try:
            status = (cwd / path).stat()
            modified = _modified_ns(cwd / path)
        except OSError:
            continue  # a link to nowhere, or gone since
        if until_unix is not None and modified / 1e9 > until_unix:
            continue
        # Of a file and links to it ("last.pt"), the file itself.
        rank = (modified, numbers_in(name), not (cwd / path).is_symlink())
        known = found.get((status.st_dev, status.st_ino))
        if known is None or rank > known[0]:
            found[status.st_dev, status.st_ino] = (rank, path)
    ordered = sorted(found.values(), key=lambda each: each[0][:2], reverse=True)
    return [path for _, path in ordered]


def _check(path: Path, others: Collection[Path], cwd: Path) -> Soundness:
    found = replace(check_checkpoint(cwd / path), path=path)
    if found.is_sound and found.kind == UNKNOWN:
        sizes = [
            (cwd / other).stat().st_size
            for other in others
            if other != path and other.suffix == path.suffix and (cwd / other).is_file()
        ]
        usual = median(sizes) if sizes else 0
        if found.size_bytes < _SMALL_SHARE * usual:
            why = f"it has {found.size_bytes} bytes where the others have about {usual:.0f}"
            return replace(found, problem=why)
    if found.is_sound and (cwd / path).is_dir():
        return replace(found, problem=_lacks_ranks(path, others, cwd))
    return found


def _lacks_ranks(path: Path, others: Collection[Path], cwd: Path) -> str | None:
    """Whether the one before it has parts of more ranks: the last ones did not come to write.

    A job that goes on with fewer ranks loses its first checkpoint by this, and no other.
    """
    paths = list(others)
    before = next((o for o in paths[paths.index(path) + 1 :] if (cwd / o).is_dir()), None)
    if before is None or before.parent != path.parent:
        return None
    own, usual = (ranks_in(_names_in(cwd / each)) for each in (path, before))
    return f"it has parts of {own} ranks, and {before} of {usual}" if 0 < own < usual else None


def _names_in(folder: Path) -> list[Path]:
    found = (each.relative_to(folder) for each in folder.rglob("*") if each.is_file())
    return list(islice(found, _MOST_NAMES))


def _modified_ns(path: Path) -> int:
    """Of a folder: of the newest file in it."""
    own = path.stat().st_mtime_ns
    if not path.is_dir():
        return own
    files = [each.stat().st_mtime_ns for each in path.rglob("*") if each.is_file()]
    return max(files, default=own)


def numbers_in(name: str) -> list[int]:
    """step-10 after step-9, where both were written within one tick of the clock."""
    return [int(number) for number in re.findall(r"\d{1,18}", name)]
