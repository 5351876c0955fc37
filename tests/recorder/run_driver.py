"""Running `rerail run` for real: as a child, and inside a terminal with a person's keys."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rerail.records import Event, ProcessRecord
from rerail.store import RunFolder, Store

RERAIL = [sys.executable, "-c", "import sys; from rerail.__main__ import main; sys.exit(main())"]
PROGRAMS = Path(__file__).parents[1] / "programs"
DEADLINE_SECONDS = 180.0  # a guard: a busy machine takes half a minute to load torch


def compiled_library(source: Path, folder: Path) -> Path:
    """A shared library of a C or C++ file; without a compiler the test is skipped."""
    names = ("cc", "gcc") if source.suffix == ".c" else ("c++", "g++")
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        pytest.skip(f"no compiler ({names[0]}) to build the library that dies")
    path = folder / f"lib{source.stem.replace('_', '')}.so"
    words = [compiler, "-shared", "-fPIC", "-g", "-O0", "-o", path, source, "-lpthread"]
    subprocess.run(words, check=True)
    return path


@dataclass
class Finished:
    status: int  # as subprocess has it: negative for a signal
    stdout: bytes
    stderr: bytes
    home: Path

    @property
    def folder(self) -> RunFolder:
        return Store(self.home).resolve("last")

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.folder.events() if event.kind == kind]

    def processes(self) -> list[ProcessRecord]:
        """In order of their start; the record has them as they became known."""
        return sorted(self.folder.processes(), key=lambda process: process.started_t_seconds)


def rerail_run(home: Path, *command: str, options: Sequence[str] = ()) -> list[str]:
    return [*RERAIL, "run", "--home", str(home), "--no-explain", *options, "--", *command]


def run_recorded(
    home: Path, *command: str, options: Sequence[str] = (), **settings: Any
) -> Finished:
    settings.setdefault("stdin", subprocess.DEVNULL)
    if "input" in settings:
        del settings["stdin"]
    done = subprocess.run(
        rerail_run(home, *command, options=options),
        stdout=settings.pop("stdout", subprocess.PIPE),
        stderr=settings.pop("stderr", subprocess.PIPE),
        timeout=DEADLINE_SECONDS,
        **settings,
    )
    return Finished(done.returncode, done.stdout, done.stderr, home)


def python(*code: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(code)]


def wait_until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """Poll with a deadline; the condition's value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s for {what}")


def read_line(process: subprocess.Popen[bytes], seconds: float = DEADLINE_SECONDS) -> bytes:
    """One line of its standard output, within the deadline. Start it with `bufsize=0`."""
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    line = b""
    while not line.endswith(b"\n"):
        left = max(deadline - time.monotonic(), 0)
        ready, _, _ = select.select([process.stdout], [], [], left)
        assert ready, f"no line within {seconds} s, only {line!r}; {process.args}"
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            break
        line += byte
    return line


def read_rest(process: subprocess.Popen[bytes], seconds: float = DEADLINE_SECONDS) -> bytes:
    """Everything up to the end of its standard output, within the deadline."""
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    read = []
    while True:
        left = max(deadline - time.monotonic(), 0)
        ready, _, _ = select.select([process.stdout], [], [], left)
        assert ready, f"its output does not end within {seconds} s; {process.args}"
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            return b"".join(read)
        read.append(data)


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return text[text.rindex(b")") + 2 :][:1] not in (b"Z", b"X")


class Terminal:
    """A program inside a terminal; `type` are its user's keys, `expect` the user's eyes."""

    def __init__(self, command: Sequence[str], rows: int = 24, columns: int = 80) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "ready> "
            os.environ["TERM"] = "dumb"
            os.execvp(command[0], list(command))
        self.seen = b""
        self._at = 0
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, keys: str | bytes) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def expect(self, text: str | bytes, seconds: float = DEADLINE_SECONDS) -> bytes:
        """Wait for the text; everything that appeared since the last expectation up to it."""
        wanted = text.encode() if isinstance(text, str) else text
        deadline = time.monotonic() + seconds
        while (found := self.seen.find(wanted, self._at)) < 0:
            if time.monotonic() > deadline or not self._read(deadline):
                raise AssertionError(f"{wanted!r} did not appear; seen {self.seen[self._at :]!r}")
        passed = self.seen[self._at : found + len(wanted)]
        self._at = found + len(wanted)
        return passed

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.master)

    def wait(self) -> int:
        """Read to the end; the exit status as subprocess has it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read(deadline):
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not end; seen {self.seen[self._at :]!r}")
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.waitpid(self.pid, 0)
        os.close(self.master)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
