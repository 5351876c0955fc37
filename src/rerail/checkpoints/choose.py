"""Which checkpoint to go on from: the newest that holds together.

In: a pattern as the user typed it. Out: a `Choice`, with every newer one that was passed over and
why. Nothing is moved, renamed or deleted.
"""

from __future__ import annotations

import itertools
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from rerail.checkpoints.check import UNKNOWN, Soundness, check_checkpoint
from rerail.checkpoints.parts import ranks_in
from rerail.checkpoints.search import Search

# A file of unknown format this much smaller than its siblings was cut off while it was written.
_SMALL_SHARE = 0.5
_MOST_CHECKED = 1000  # damaged ones; each is read, so more of them would take minutes
_MOST_SAID = 3


@dataclass(frozen=True)
class Choice:
    chosen: Soundness | None
    skipped: tuple[Soundness, ...] = ()  # newer than the chosen one
    found: int = 0
    cut_short: str | None = None  # why not everything was looked at

    def passed_over(self) -> list[str]:
        """Return a sentence for each of the newest that do not load, and one for all others."""
        said = [
            f"checkpoint {each.path} is passed over: {each.problem}"
            for each in self.skipped[:_MOST_SAID]
        ]
        if more := len(self.skipped) - len(said):
            said.append(f"{more} more checkpoints are passed over as well")
        return said + ([self.cut_short] if self.cut_short else [])


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
    search = Search()
    paths = _find(search, pattern, cwd, until_unix)
    cut_short = search.cut_short and (
        f"the search for checkpoints was too large: {search.cut_short};"
        " a pattern without ** looks at fewer folders"
    )
    skipped: list[Soundness] = []
    siblings = _Siblings(paths, cwd)
    for at, path in enumerate(paths[:_MOST_CHECKED]):
        why = (refused or {}).get(path)
        found = Soundness(path, "checkpoint", why) if why else _check(at, siblings)
        if found.is_sound and bad_since_unix and found.modified_ns / 1e9 >= bad_since_unix:
            found = replace(found, problem="it was written after the loss was no longer finite")
        if found.is_sound:
            return Choice(found, tuple(skipped), len(paths), cut_short)
        skipped.append(found)
    if len(paths) > _MOST_CHECKED:
        cut_short = f"only the newest {_MOST_CHECKED} of {len(paths)} checkpoints were looked at"
    return Choice(None, tuple(skipped), len(paths), cut_short)


def find_checkpoints(pattern: str, cwd: Path, until_unix: float | None = None) -> list[Path]:
    """Return the checkpoints, newest first, each once, as the pattern spells them."""
    return _find(Search(), pattern, cwd, until_unix)


def _find(search: Search, pattern: str, cwd: Path, until_unix: float | None) -> list[Path]:
    found: dict[tuple[int, int], tuple[tuple[int, list[int], bool], Path]] = {}
    for name in sorted(search.matches(pattern, cwd)):
        path = Path(name)
        try:
            status = (cwd / path).stat()
            modified = _modified_ns(cwd / path, search)
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


class _Siblings:
    """The checkpoints of one pattern, newest first, and the sizes of their files, read once."""

    def __init__(self, paths: list[Path], cwd: Path) -> None:
        self.paths = paths
        self.cwd = cwd
        self._sizes: dict[str, list[int]] = {}  # by suffix, in order

    def usual_size(self, path: Path, own: int) -> float:
        """Return the median of the other files with the same suffix; 0 if there are none."""
        if path.suffix not in self._sizes:
            sizes = (_file_size(self.cwd / o) for o in self.paths if o.suffix == path.suffix)
            self._sizes[path.suffix] = sorted(size for size in sizes if size is not None)
        others = self._sizes[path.suffix].copy()
        if own in others:
            others.remove(own)
        return median(others) if others else 0


def _file_size(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _check(at: int, siblings: _Siblings) -> Soundness:
    path, cwd = siblings.paths[at], siblings.cwd
    found = replace(check_checkpoint(cwd / path), path=path)
    if found.is_sound and found.kind == UNKNOWN:
        usual = siblings.usual_size(path, found.size_bytes)
        if found.size_bytes < _SMALL_SHARE * usual:
            why = f"it has {found.size_bytes} bytes where the others have about {usual:.0f}"
            return replace(found, problem=why)
    if found.is_sound and (cwd / path).is_dir():
        return replace(found, problem=_lacks_ranks(at, siblings))
    return found


def _lacks_ranks(at: int, siblings: _Siblings) -> str | None:
    """Whether the one before it has parts of more ranks: the last ones did not come to write.

    A job that goes on with fewer ranks loses its first checkpoint by this, and no other.
    """
    path, cwd = siblings.paths[at], siblings.cwd
    older = itertools.islice(siblings.paths, at + 1, None)
    before = next((o for o in older if (cwd / o).is_dir()), None)
    if before is None or before.parent != path.parent:
        return None
    own, usual = (ranks_in(_names_in(cwd / each)) for each in (path, before))
    return f"it has parts of {own} ranks, and {before} of {usual}" if 0 < own < usual else None


def _names_in(folder: Path) -> list[Path]:
    return [each.relative_to(folder) for each in Search().files_below(folder)]


def _modified_ns(path: Path, search: Search) -> int:
    """Return when a file was written, or the newest file of a folder."""
    own = path.stat().st_mtime_ns
    if not path.is_dir():
        return own
    return max((each.stat().st_mtime_ns for each in search.files_below(path)), default=own)


def numbers_in(name: str) -> list[int]:
    """step-10 after step-9, where both were written within one tick of the clock."""
    return [int(number) for number in re.findall(r"\d{1,18}", name)]
