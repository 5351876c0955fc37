"""`%load_ext rerail`: records the kernel of a notebook, and tells why the one before it died.

In: the shell of IPython. Out: the magics `%rerail on`, `%rerail off`, `%rerail` and `%%rerail`. The
kernel goes on as it is, with all its variables: the agent comes into it, and a recorder follows it
from outside. Promises: what fails is said in one line, and the cell runs all the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rerail.agent import STUB
from rerail.api import Run, runs
from rerail.errors import RerailError, UsageError
from rerail.marks import look_for_agent
from rerail.platform.own_process import first_answer, own_process
from rerail.store import find_home

LABEL = "notebook"
_READY_SECONDS = 20.0
_RECENT_SECONDS = 24 * 3600.0


class _KernelRecord:
    """The record of this kernel: there is one at most, since the agent enters a process once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.folder: Path | None = None
        self.is_over = False

    @property
    def is_on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def begin(self) -> str:
        """What to say about it."""
        if self.is_on:
            return f"is recording this kernel ({self._id})"
        if os.environ.get("RERAIL_AGENT") and "rerail_agent" in sys.modules and not self.is_over:
            return "is recording this kernel: it was started with `rerail run`"
        if self.is_over:
            return "has recorded this kernel once: restart the kernel to begin anew"
        asked = {
            "pid": os.getpid(),
            "home": str(find_home(None)),
            "cwd": str(Path.cwd()),
            "label": LABEL,
            "command": [sys.executable, *sys.orig_argv[1:]],
        }
        self._process = subprocess.Popen(
            own_process("rerail.integrations.kernel_recorder"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the kernel is not meant for it
        )
        try:
            answer = self._ask(self._process, asked)
            self.folder = Path(answer["folder"])
            _bring_in_agent(answer["variables"])
        except BaseException:  # also who interrupts the kernel: the next `%rerail on` begins anew
            self._process.kill()
            self._process.wait()
            self._process = self.folder = None
            raise
        return f"records this kernel from here on ({self._id})"

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], asked: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: said below
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        answer = first_answer(process, _READY_SECONDS)
        if answer is None:
            said = (
                "ended" if process.poll() is not None else f"said nothing in {_READY_SECONDS:g} s"
            )
            raise UsageError(f"the process that records {said}")
        return answer

    def end(self) -> str:
        if self._process is None or not self.is_on:
            return "is not recording this kernel"
        assert self._process.stdin is not None
        self._process.stdin.write(b"end 0\n")
        self._process.stdin.close()
        self.is_over = True
        try:
            self._process.wait(_READY_SECONDS)
        except subprocess.TimeoutExpired:
            return f"is still writing the record of this kernel: rerail show {self._id}"
        return f"has recorded this kernel: rerail show {self._id}"

    @property
    def _id(self) -> str:
        return self.folder.name.rpartition("-")[2] if self.folder is not None else ""


_kernel = _KernelRecord()


def _bring_in_agent(variables: dict[str, str]) -> None:
    """As sitecustomize does in a program that is started; children of the kernel get none."""
    names = ("RERAIL_AGENT", "RERAIL_AGENT_MEMORY", "RERAIL_T0")
    os.environ.update({name: variables.get(name, "") for name in names})
    sys.path.insert(0, str(STUB))
    try:
        import rerail_agent  # type: ignore[import-not-found]

        rerail_agent.start(str(STUB))
    finally:
        sys.path.remove(str(STUB))
    look_for_agent()


def act(line: str, cell: str | None, run_cell: Callable[[str], Any]) -> None:
    """What the magic does, with what was typed behind it and below it."""
    word = line.strip()
    if cell is not None:
        if not _kernel.is_on:
            _say(_kernel.begin)
        run_cell(cell)
    elif word == "on":
        _say(_kernel.begin)
    elif word == "off":
        _say(_kernel.end)
    elif word == "last":
        _say(lambda: _last_in_words(next(iter(runs()))))
    elif word:
        print("rerail: type %rerail on, %rerail off, %rerail last, or %%rerail above a cell")
    elif _kernel.is_on:
        _say(_kernel.begin)
    else:
        print("rerail does not record: %rerail on")


def _say(make: Callable[[], str]) -> None:
    try:
        print(f"rerail {make()}")
    except Exception as error:
        shown = (
            error.message if isinstance(error, RerailError) else f"{type(error).__name__}: {error}"
        )
        print(f"rerail cannot do that here ({shown})")


def load_into(shell: Any) -> None:
    from rerail.integrations.magics import RerailMagics

    shell.register_magics(RerailMagics)
    try:
        dead = _dead_kernel_before()
    except (RerailError, OSError):
        return
    if dead is not None:
        print(f"rerail: the kernel before this one died: {_headline(dead)}")


def _dead_kernel_before() -> Run | None:
    """The newest record of a kernel here, if that kernel died, and not long ago."""
    for run in runs():
        if run.label == LABEL and run.info.cwd == str(Path.cwd()):
            is_recent = time.time() - run.info.started_unix < _RECENT_SECONDS
            return run if run.state != "running" and run.has_failed and is_recent else None
    return None


def _last_in_words(run: Run) -> str:
    """ "recorded run 22fc last: …", behind the name of rerail."""
    what = "a kernel" if run.label == LABEL else f"run {run.id.rpartition('-')[2]}"
    return f"recorded {what} last: {_headline(run)}"


def _headline(run: Run) -> str:
    return f"{run.headline}\n  more: rerail explain {run.id.rpartition('-')[2]}"
