"""When the surroundings of a run are looked at, and how long that may take.

In: what the command was started with. Out: surroundings.json. Promises: it is done in a child that
may use few resources, after the command has started; a command that ended well before that is not
kept waiting for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rerail.platform.forked_task import ForkedTask
from rerail.recorder.run_record import RunRecord

MOST_SECONDS = 60.0
# Looked at this long after the start, or at the end of a command that died before: it takes more
# CPU time than all else that a short run costs, and of one that ended well nobody asks for it.
AFTER_SECONDS = 2.0
LAST_SECONDS = 1.0  # more is not waited for once the command has ended


class StartedWith(NamedTuple):
    """What the surroundings are looked up for."""

    command: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]
    added: Mapping[str, str]  # variables that bring the agent in


class SurroundingsTask:
    def __init__(self, record: RunRecord, started_with: StartedWith, own_helpers: set[int]) -> None:
        self._record = record
        self._started_with = started_with
        self._own_helpers = own_helpers  # pids that are not processes of the run
        self._task: ForkedTask | None = None
        # A guardian that takes over may find them done.
        self._is_to_do = not (record.writer.path / "surroundings.json").exists()

    def look(self) -> None:
        """Ten times a second: begin when it is time, and take note of the end."""
        if self._is_to_do and self._record.writer.now() >= AFTER_SECONDS:
            self._begin()
        if self._task is not None and self._task.is_over():
            self._end(self._task)

    def finish(self, *, is_wanted: bool) -> None:
        """A short run is over before its surroundings are known: if they are wanted, wait."""
        if self._is_to_do and is_wanted:
            self._begin()
        elif self._is_to_do:
            self._is_to_do = False
            self._record.miss("surroundings", "the run was over first")
        if self._task is not None:
            self._task.wait(LAST_SECONDS if is_wanted else 0.0)
            self._task.cancel()
            self._end(self._task)

    def _begin(self) -> None:
        """In a child: it asks git and the target's interpreter, which takes its time."""
        self._is_to_do = False
        self._task = self._record.attempt(
            "surroundings",
            lambda: ForkedTask.start("surroundings", self._write, MOST_SECONDS, niceness=10),
        )
        if self._task is not None:
            self._own_helpers.add(self._task.pid)

    def _write(self) -> None:
        from rerail.recorder import surroundings

        command, cwd, environ, added = self._started_with
        writer = self._record.writer
        found = surroundings.collect(list(command), cwd, dict(environ), dict(added), writer.masker)
        writer.write_json("surroundings.json", found)

    def _end(self, task: ForkedTask) -> None:
        if task.problem:
            self._record.miss("surroundings", task.problem)
        self._task = None
