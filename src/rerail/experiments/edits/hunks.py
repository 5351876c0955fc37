"""The user's edits: a file before and after, and which lines of it differ.

In: files with both sides and the ranges that git names. Out: `Hunk`s, and the file with any of them
taken back. Pure: taking back all gives the file as it was, taking back none the file as it is.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rerail.experiments.edits.repository import ChangedFile


@dataclass(frozen=True)
class Hunk:
    """A run of lines that differ, numbered from 0; an end is the line after the last."""

    path: str
    old_start: int
    old_end: int
    new_start: int
    new_end: int
    is_whole_file: bool = False

    @property
    def place(self) -> str:
        """Where it is in the file as it is now, as a person counts lines."""
        if self.is_whole_file:
            return ""
        first, last = self.new_start + 1, self.new_end
        return f"{first}-{last}" if last > first else f"{first}"


@dataclass(frozen=True)
class EditedFile:
    file: ChangedFile
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        return self.file.path

    def without(self, taken_back: Collection[Hunk]) -> bytes | None:
        """The file with these hunks taken back; None: it is not there."""
        own = [hunk for hunk in self.hunks if hunk in taken_back]
        if any(hunk.is_whole_file for hunk in own):
            return self.file.old
        if not own:
            return self.file.new
        old, new = lines_of(self.file.old or b""), lines_of(self.file.new or b"")
        result, at = [], 0
        for hunk in own:
            result += new[at : hunk.new_start]
            result += old[hunk.old_start : hunk.old_end]
            at = hunk.new_end
        return b"".join([*result, *new[at:]])

    def is_executable(self, taken_back: Collection[Hunk]) -> bool:
        has_all = all(hunk in taken_back for hunk in self.hunks)
        return self.file.was_executable if has_all else self.file.is_executable


def edited_file(file: ChangedFile, ranges: Sequence[tuple[int, int, int, int]]) -> EditedFile:
    if file.old is None or file.new is None or not ranges:
        return EditedFile(file, (Hunk(file.path, 0, 0, 0, 0, is_whole_file=True),))
    hunks = []
    for old, old_count, new, new_count in ranges:
        # Git names the line before a side that is empty.
        old_start = old - 1 if old_count else old
        new_start = new - 1 if new_count else new
        hunks.append(
            Hunk(file.path, old_start, old_start + old_count, new_start, new_start + new_count)
        )
    return EditedFile(file, tuple(hunks))


def lines_of(content: bytes) -> list[bytes]:
    """As git counts them."""
    parts = content.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def can_be_read(path: str, content: bytes | None) -> bool:
    """Whether a file of this kind is whole; kinds that nobody here knows always are."""
    if content is None:
        return True
    try:
        if path.endswith(".py"):
            ast.parse(content)
        elif path.endswith(".json"):
            json.loads(content)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def means_the_same(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two versions differ in comments and layout alone."""
    if one == other:
        return True
    if one is None or other is None or not path.endswith(".py"):
        return False
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError, RecursionError):
        return False
