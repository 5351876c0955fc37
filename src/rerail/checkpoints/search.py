"""Files that a pattern of the user's matches, and files below a folder, within bounds.

In: a pattern as in `glob`, and a `Search`, which bounds the work. Out: names. Promises: a search
ends after `MOST_SECONDS` or `MOST_NAMES`, whatever lies below the folder, and `Search.cut_short`
says so.

This is written by hand because `glob` has no bound: its `**` goes through links to folders, so a
link to its own parent is searched forty levels deep, and one to `/` is the whole disk.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import time
from collections.abc import Iterator
from pathlib import Path

MOST_NAMES = 200_000
MOST_SECONDS = 10.0
_NAMES_PER_LOOK_AT_CLOCK = 256


class Search:
    """The bound on one search. `cut_short` is a sentence once the bound was reached."""

    def __init__(self, most_names: int = MOST_NAMES, seconds: float = MOST_SECONDS) -> None:
        self._most_names = most_names
        self._seconds = seconds
        self._ends = time.monotonic() + seconds
        self._names = 0
        self.cut_short: str | None = None

    def entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield what a folder holds until the bound is reached; nothing if it cannot be read."""
        if self.cut_short:
            return
        try:
            with os.scandir(folder or ".") as found:
                for entry in found:
                    if self._is_over():
                        return
                    yield entry
        except OSError:
            return

    def files_below(self, folder: Path) -> Iterator[Path]:
        """Yield the files in a folder and its subfolders. Links to folders are not followed."""
        waiting = [str(folder)]
        while waiting:
            for entry in self.entries(waiting.pop()):
                if _is_own_folder(entry):
                    waiting.append(entry.path)
                elif _is_file(entry):
                    yield Path(entry.path)

    def matches(self, pattern: str, cwd: Path) -> Iterator[str]:
        """Yield the names that a pattern matches, as it spells them (relative to `cwd`).

        A link to a folder is followed where the pattern names it or matches it with `*`, because
        runs on a cluster often lie behind such links. `**` does not follow links.
        """
        typed = Path(os.path.expanduser(pattern))  # noqa: PTH111 - a `~` that is no user is a name
        parts = list(typed.parts)
        anchor = parts.pop(0) if typed.is_absolute() else ""
        yield from self._expand(anchor, parts, cwd)

    def _expand(self, name: str, parts: list[str], cwd: Path) -> Iterator[str]:
        if not parts:
            yield name
            return
        part, *others = parts
        if part == "**":
            for folder in self._folders_from(name, cwd):
                yield from self._expand(folder, others or ["*"], cwd)
        elif glob.has_magic(part):
            for entry in self.entries(os.path.join(cwd, name)):  # noqa: PTH118
                if _is_matched(entry.name, part) and (not others or _is_folder(entry)):
                    yield from self._expand(os.path.join(name, entry.name), others, cwd)  # noqa: PTH118
        else:
            joined = os.path.join(name, part)  # noqa: PTH118 - keeps the spelling that was typed
            if os.path.lexists(cwd / joined):
                yield from self._expand(joined, others, cwd)

    def _folders_from(self, name: str, cwd: Path) -> Iterator[str]:
        waiting = [name]
        while waiting:
            folder = waiting.pop()
            yield folder
            for entry in self.entries(os.path.join(cwd, folder)):  # noqa: PTH118
                if not entry.name.startswith(".") and _is_own_folder(entry):
                    waiting.append(os.path.join(folder, entry.name))  # noqa: PTH118

    def _is_over(self) -> bool:
        self._names += 1
        if self._names > self._most_names:
            self.cut_short = f"it ended after {self._most_names} names"
        elif self._names % _NAMES_PER_LOOK_AT_CLOCK == 0 and time.monotonic() > self._ends:
            self.cut_short = f"it ended after {self._seconds:.0f} s"
        return self.cut_short is not None


def _is_matched(name: str, part: str) -> bool:
    is_hidden = name.startswith(".") and not part.startswith(".")
    return not is_hidden and fnmatch.fnmatchcase(name, part)


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False
