"""The process that records a notebook's kernel, started by `integrations/notebook.py`.

In: on standard input one line of JSON, which process to follow and where the runs are; later a
line `end CODE`. Out: one line of JSON, the variables that the agent in the kernel needs; then a run
folder with its diagnosis, once the kernel has ended or the record is to end. Promises: the kernel
does not wait for it, and is not touched by it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rerail.platform.deadline import MOST_SECONDS
from rerail.recorder import RunOptions, record_living
from rerail.store import Store

# A kernel that waits for its next cell stands still, and is well.
NEVER_SECONDS = MOST_SECONDS


def main() -> int:
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    told, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    os.chdir(asked["cwd"])
    store = Store(Path(asked["home"]))

    def attach(folder: Path, variables: dict[str, str], loop: Any, end: Any) -> None:
        answer = {"folder": str(folder), "variables": variables}
        os.write(answers, json.dumps(answer).encode() + b"\n")
        os.close(answers)

        def listen() -> None:
            said = os.read(told, 100).split()
            if said[:1] == [b"end"]:
                end(int(said[1]))
            else:
                loop.forget(told)  # the kernel is gone, and its end is told by the system

        loop.watch(told, listen)

    options = RunOptions(stall_seconds=NEVER_SECONDS, is_quiet=True, label=asked["label"])
    recording = record_living(asked["pid"], asked["command"], store, options, attach)
    if recording.deserves_explanation:
        from rerail.api import Run

        with suppress(Exception):
            Run(recording.folder, store).explain()
        from rerail.trackers import close_tracked_runs

        close_tracked_runs(recording.folder, store.home, os.environ)
    return 0
