"""Recording from inside somebody's Python program: `rerail run` in a process of its own.

In: a command, the options of `rerail run`, a folder and an environment. Out: the run's folder.
Promises: the calling process gets no signal handlers, no forks of itself and no children to wait
for but this one, whatever threads, devices and children of its own it has; so any thread may call.
What the command prints goes where the descriptors 1 and 2 of the calling process go.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from rerail.errors import NotRecorded
from rerail.platform.own_process import own_process

PATIENCE_SECONDS = 5.0  # after Ctrl-C, which the terminal has sent to the command too


def record_apart(
    command: Sequence[str],
    options: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Run the command to its end; NotRecorded if it ran and left no record."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()  # what was said before the command stands before it
    with tempfile.TemporaryFile() as answer:
        process = subprocess.Popen(
            [
                *own_process("rerail.__main__"),
                "run",
                *("--folder-to", str(answer.fileno())),
                *options,
                *("--", *command),
            ],
            cwd=cwd,
            env=None if environ is None else dict(environ),
            pass_fds=(answer.fileno(),),
        )
        try:
            status = process.wait()
        except BaseException:
            _end(process)
            raise
        return _answered(answer, status)


def _answered(answer: IO[bytes], status: int) -> Path:
    answer.seek(0)
    path = answer.read()
    if not path:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise NotRecorded(
            f"there is no record of this run; the command {ended}",
            "What `rerail run` said on standard error tells why.",
        )
    return Path(os.fsdecode(path))


def _end(process: subprocess.Popen[bytes]) -> None:
    """The caller is interrupted: the command ends before the caller goes on."""
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # passed on to the command
        process.wait()
