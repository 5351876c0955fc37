"""The files that the processes of a run write of themselves, wherever they are now.

In: a run folder. Out: what readers need of a folder (`glob` and `/`), of two folders as if they
were one: while the run is live its folder in memory, and always `agent/` in the run folder.
Promises: a file in memory comes before its copy; links and foreign folders are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rerail.store import agent_memory, layout
from rerail.store.regular_files import is_own_folder


class AgentFiles:
    def __init__(self, run: Path, memory: Path | None = None) -> None:
        self._run = run
        self._memory = memory
        self._owner = os.geteuid()  # of the folder in memory
        # The recorder knows its folder in memory, and does not wait for the disk to read a box.
        self.is_in_memory_alone = memory is not None

    @property
    def memory(self) -> Path | None:
        """The folder in memory. It may come later than the reader, and go before it."""
        if self._memory is None or not agent_memory.is_private(self._memory, (self._owner,)):
            self._memory = agent_memory.find(self._run)
            with suppress(OSError):
                self._owner = self._memory.lstat().st_uid if self._memory else self._owner
        return self._memory

    def glob(self, pattern: str) -> Iterator[Path]:
        """Files by their names, each name once."""
        memory = self.memory
        found = {}
        is_on_disk = memory is None or not self.is_in_memory_alone
        if is_on_disk and is_own_folder(home := self._run / layout.AGENT):
            found = {path.name: path for path in home.glob(pattern)}
        if memory is not None:
            found.update({path.name: path for path in agent_memory.files_in(memory, pattern)})
        return iter([found[name] for name in sorted(found)])

    def everywhere(self) -> list[Path]:
        """All files, copies too."""
        memory, home = self.memory, self._run / layout.AGENT
        in_memory = agent_memory.files_in(memory) if memory is not None else []
        return [*in_memory, *(sorted(home.glob("*")) if is_own_folder(home) else [])]

    def __truediv__(self, name: str) -> Path:
        """Where the file is, or would be in the run folder."""
        memory = self.memory
        if memory is not None:
            path = memory / name
            if self.is_in_memory_alone or path.is_file():
                return path
        return self._run / layout.AGENT / name


AgentDir = Path | AgentFiles  # what a reader of boxes takes
