"""What runs on a node of a Ray cluster: one recorded task, and what its folder has to send home.

In: a task, and whether the node sees the store's own file system. Out: the run in the store, or,
where the node does not see it, the run folder's files piece by piece. rerail has to be installed on
the node; nothing else of the machine that asks is needed there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from rerail.scheduling.local import LocalTask
from rerail.scheduling.task import Task
from rerail.store import OUTPUT_BYTES, read_regular

# What tells how far a live run is; the rest is sent once it is over.
_LIVE = ("run.json", "events.jsonl", "agent/*.box*", "agent/*.crash")

Known = dict[str, tuple[int, int]]  # name -> size and time of its last change, in nanoseconds


class Recording:
    """The actor: lives as long as its task does."""

    def __init__(self, text: str, token: str | None) -> None:
        """`token` is a file that only those who see the store's file system find."""
        task = Task.from_text(text)
        self._scratch: str | None = None
        if token is None or not Path(token).exists():
            self._scratch = tempfile.mkdtemp(prefix="rerail-")
            cwd = task.cwd if Path(task.cwd).is_dir() else self._scratch
            task = replace(task, home=str(Path(self._scratch, "home")), cwd=cwd)
        self._local = LocalTask(task)

    def state(self) -> tuple[bool, str | None, bool]:
        """Whether it is over, where its folder is, and whether that folder is in the store."""
        is_over = self._local.is_over()
        folder = self._local.folder()
        return is_over, str(folder) if folder else None, self._scratch is None

    def changed(self, known: Known, whole: bool) -> dict[str, tuple[tuple[int, int], bytes]]:
        """Files of the run folder that are not as they were."""
        folder = self._local.folder()
        found: dict[str, tuple[tuple[int, int], bytes]] = {}
        if folder is None:
            return found
        for pattern in ("**/*",) if whole else _LIVE:
            for path in folder.glob(pattern):
                try:
                    about = path.stat()
                    stamp = about.st_size, about.st_mtime_ns
                    name = path.relative_to(folder).as_posix()
                    if path.is_dir() or (known.get(name) == stamp and not _is_mapped(path)):
                        continue
                    found[name] = stamp, read_regular(path, OUTPUT_BYTES)
                except OSError:
                    continue  # replaced at this moment: next time
        return found

    def stop(self) -> None:
        self._local.stop()

    def problem(self) -> str | None:
        return self._local.problem()

    def clear(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def _is_mapped(path: Path) -> bool:
    """A black box is written through a mapping, which does not always touch its time."""
    return path.suffix in (".box", ".boxes")


def node_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
