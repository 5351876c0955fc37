"""Whose is a log file in the working folder: this run's, or another program's?

In: a recorded run, the runs beside it in the store, and files written while it ran. Out: which of
them the record shows to be this run's. A process wrote its standard output or error there, or the
command line of a recorded process names the file; or the file began and was last written while this
run lived, no other recorded run that lived at the same time could have written it, and no line of
it names a process or a program that is not this run's. Promises: where none of that can be shown
(an older file that a logger appends to), the answer is no; bounded in runs and names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from rerail.errors import RerailError
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.lines import to_lines
from rerail.evidence.text.tracebacks import find_tracebacks
from rerail.platform.libc import born_unix
from rerail.platform.own_code import is_own
from rerail.platform.patterns import linear
from rerail.records import RunInfo
from rerail.store import RunFolder, Store

MOST_BESIDE = 100  # runs of the store before this one, and as many after it
MOST_NAMED = 2000  # words of command lines
FIRST_LINES = 20  # where a program says who it is
_WORD = linear(r"[^\s'\"=<>|;&()]+")
_PID = linear(r"(?i)\bpid\b[ :=]{1,3}(?P<pid>\d{1,9})\b")


class LogOwner:
    """Answers for the files of one run; `folder`: where the run lies, with others beside it."""

    def __init__(self, run: RecordedRun, folder: RunFolder | None) -> None:
        self._run = run
        self._folder = folder

    def is_of_this_run(self, path: Path, written_unix: float) -> bool:
        """Return whether the record shows that this run wrote the file."""
        if path in self._named:
            return True
        born = born_unix(path)
        if born is None or born < self._run.info.started_unix:
            return False
        return not any(other.may_have_written(path, born, written_unix) for other in self._others)

    def names_another(self, path: Path, lines: Sequence[tuple[int, str]]) -> bool:
        """Return whether a file says itself that a process or program of another run wrote it."""
        if path in self._named:
            return False
        pids = {process.pid for process in self._run.processes}
        said = (_PID.search(line) for _, line in lines[:FIRST_LINES])
        if any(int(found["pid"]) not in pids for found in said if found):
            return True
        return any(program not in self._programs for program in _programs_in(lines))

    @cached_property
    def _named(self) -> set[Path]:
        """Files that the command lines of the run's processes name."""
        commands = [self._run.info.command, *(p.command for p in self._run.processes)]
        return set(_files_named(commands, self._run.info.cwd))

    @cached_property
    def _programs(self) -> set[str]:
        """What the run's processes were told to run: `train`, of train.py and of -m jobs.train."""
        commands = [self._run.info.command, *(p.command for p in self._run.processes)]
        words = {word for command in commands for text in command for word in _WORD.findall(text)}
        return {_program(word) for word in words} | {word.rpartition(".")[2] for word in words}

    @cached_property
    def _others(self) -> list[_OtherRun]:
        """Runs of the same store and machine that lived at the same time."""
        if self._folder is None:
            return []
        ids = list(Store(self._folder.path.parent.parent).own_ids())
        if self._folder.id not in ids:
            return []
        at = ids.index(self._folder.id)
        found = []
        for name in ids[max(0, at - MOST_BESIDE) : at] + ids[at + 1 : at + 1 + MOST_BESIDE]:
            try:
                other = _OtherRun(RunFolder(self._folder.path.with_name(name)))
            except RerailError:
                continue
            if other.info.host == self._run.info.host:
                found.append(other)
        return found


class _OtherRun:
    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.info: RunInfo = folder.info()

    def may_have_written(self, path: Path, born_unix: float, written_unix: float) -> bool:
        """Return whether it lived while the file was written, and worked there or names it."""
        begin, elapsed = self.info.started_unix, self.info.elapsed_seconds
        if written_unix < begin or (elapsed is not None and born_unix > begin + elapsed):
            return False
        return path.is_relative_to(self.info.cwd) or path in self._named

    @cached_property
    def _named(self) -> set[Path]:
        try:
            commands = [process.command for process in self._folder.processes()]
            boxes = self._folder.boxes()
        except RerailError:
            return set()
        own = {Path(name) for box in boxes for name in (box.error_file, box.output_file) if name}
        return own.union(_files_named([self.info.command, *commands], self.info.cwd))


def _files_named(commands: Sequence[Sequence[str]], folder: str) -> Iterator[Path]:
    left = MOST_NAMED
    for command in commands:
        for text in command:
            for word in _WORD.findall(text):
                if left <= 0:
                    return
                left -= 1
                yield Path(os.path.normpath(Path(folder, word)))


def _programs_in(lines: Sequence[tuple[int, str]]) -> set[str]:
    """The scripts that the tracebacks of a file begin in."""
    found = find_tracebacks(list(to_lines(lines)))
    outermost = [each.frames[0] for each in found if each.has_header and each.frames]
    return {
        _program(file)
        for file, _, function in outermost
        if function == "<module>" and not file.startswith("<") and is_own(file)
    }


def _program(path: str) -> str:
    stem = Path(path).stem
    return Path(path).parent.name if stem == "__main__" else stem
