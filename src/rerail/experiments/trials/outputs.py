"""Where a command writes, and the same command made to write elsewhere.

In: a command and a run of it on record. Out: the words of the command that name where it writes,
each with another place. A word is taken for one by what the run did: files below it were written
while the run lived, or the checkpoint is there; or by an option's name. Nothing is taken for an
output that the command itself lies in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.checkpoints import NoRoom, copy_apart, size_of

_NAMES = re.compile(
    r"(?:out|output|save|results?|log|logging|checkpoints?|ckpts?|run|work|exp|experiment|artifacts?)"
    r"(?:[-_.]?(?:dir|directory|folder|path|root|to))?|default[-_]root[-_]dir|hydra\.run\.dir"
)
_PROGRAMS = (".py", ".sh", ".ipynb")
_MOST_LOOKED_AT = 20_000
# What was there before goes with the trial, if it is no more than this.
_MOST_SEED_BYTES = 256 << 20
_CLOCK_SECONDS = 1.0  # file systems keep times less exactly than clocks


@dataclass(frozen=True)
class Period:
    """From the start of the recorded run to its end."""

    begin_unix: float
    end_unix: float

    def holds(self, unix: float) -> bool:
        return self.begin_unix - _CLOCK_SECONDS <= unix <= self.end_unix + _CLOCK_SECONDS


@dataclass(frozen=True)
class Output:
    """A word of the command that names where it writes."""

    at: int  # which word
    before: str  # what stands before the path in the word: "--out=", or nothing
    path: Path


@dataclass(frozen=True)
class Surroundings:
    """What has to be known of a command to tell its outputs from its inputs."""

    cwd: Path
    home: Path  # the store: ours, wherever it lies
    checkpoint: Path | None
    others: frozenset[Path]  # all checkpoints, as the pattern finds them
    period: Period


def find_outputs(command: Sequence[str], around: Surroundings) -> list[Output]:
    found = []
    option = ""
    for at, word in enumerate(command[1:], start=1):
        before, value, name = "", word, option
        name_part, equals, rest = word.partition("=")
        if equals and re.fullmatch(r"[\w.+~-]+", name_part):
            before, value, name = f"{name_part}=", rest, name_part
        option = word if word.startswith("-") and not equals else ""
        if not value or value.startswith("-") or "://" in value or "\n" in value:
            continue
        output = Output(at, before, Path(os.path.abspath(around.cwd / value)))  # noqa: PTH100
        if _is_output(output.path, name.lstrip("-+~").lower(), around):
            found.append(output)
    return found


def _is_output(path: Path, name: str, around: Surroundings) -> bool:
    if around.cwd.is_relative_to(path) or path.suffix in _PROGRAMS:
        return False
    try:
        if path.is_file():
            return around.period.holds(path.stat().st_mtime)
        if not path.is_dir():
            return not path.exists() and _NAMES.fullmatch(name) is not None
        if around.checkpoint is not None and around.checkpoint.is_relative_to(path):
            return True
        if _NAMES.fullmatch(name) is not None:
            return True
        # A folder of data that a cache was written into has to go with the trial.
        return _was_written_to(path, around) and _fits(path, around)
    except (OSError, ValueError):
        return False


def _was_written_to(folder: Path, around: Surroundings) -> bool:
    looked_at = 0
    for where, folders, names in os.walk(folder):
        here = Path(where)
        folders[:] = [each for each in folders if here / each != around.home]
        for name in names:
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                return False
            try:
                if around.period.holds((here / name).lstat().st_mtime):
                    return True
            except OSError:
                continue
    return False


def _fits(folder: Path, around: Surroundings) -> bool:
    try:
        return size_of(folder, lambda each: each == around.home) <= _MOST_SEED_BYTES
    except Exception:
        return False


@dataclass(frozen=True)
class Elsewhere:
    """The command with its outputs in a folder of the trial's own."""

    command: tuple[str, ...]
    places: dict[Path, Path]  # outermost outputs, and where they are now

    def of(self, path: Path) -> Path | None:
        """Where this is now, if it lies in an output."""
        for old, new in self.places.items():
            if path.is_relative_to(old):
                return new / path.relative_to(old)
        return None


def write_elsewhere(command: Sequence[str], outputs: Sequence[Output], folder: Path) -> Elsewhere:
    """Only words: nothing is made yet."""
    places: dict[Path, Path] = {}
    for output in sorted(outputs, key=lambda each: len(each.path.parts)):
        if not any(output.path.is_relative_to(old) for old in places):
            places[output.path] = folder / f"output-{len(places)}" / output.path.name
    moved = Elsewhere((), places)
    words = list(command)
    for output in outputs:
        words[output.at] = f"{output.before}{moved.of(output.path)}"
    return Elsewhere(tuple(words), places)


def fill(elsewhere: Elsewhere, around: Surroundings, *, goes_on: bool) -> None:
    """What the outputs hold that the command may want to read: configurations, logs to append to.

    Not the checkpoints: a command that takes the newest by itself would take the wrong one.
    Nor what is too large. `goes_on`: as the run left it; otherwise as it found it. Raises OSError.
    """

    def stays(path: Path) -> bool:
        if path == around.home or path in around.others:
            return True
        return not goes_on and path.is_file() and path.stat().st_mtime > around.period.begin_unix

    for old, new in elsewhere.places.items():
        new.parent.mkdir(parents=True, exist_ok=True)
        if not old.exists() or stays(old):
            continue
        is_folder = old.is_dir()
        try:
            if size_of(old, stays) <= _MOST_SEED_BYTES:
                copy_apart(old, new, stays)
        except NoRoom:
            pass  # the command may do without
        if is_folder:
            new.mkdir(exist_ok=True)
