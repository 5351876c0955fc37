"""What every case of every target has to hold: time, memory, no traceback, a right exit status.

In: a function to call, or a command of rerail to run inside this process. Out: nothing, or a
`Finding`. A case that hangs or takes the processor for too long ends the process with a signal (a
pattern that never returns cannot be interrupted otherwise); `fuzz_runner` sees which one it was.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.cli import main
from rerail.errors import RerailError

CPU_SECONDS = 10.0
WALL_SECONDS = 180.0  # of waiting for something; a busy machine may take a minute for one
MEMORY_BYTES = 1 << 30
STATUSES = (0, 1, 2)


class Finding(Exception):
    """A bar that a case did not hold; the message says which."""


@dataclass(frozen=True)
class Printed:
    status: int
    out: str
    err: str


class Bars:
    """Holds the bars for the calls of one process, and remembers the costliest."""

    def __init__(self) -> None:
        self.slowest_seconds = 0.0
        self.slowest_what = ""
        self._highest_bytes = 0

    def start(self) -> None:
        """From here on this process may take so much memory more than it has now."""
        self._base_bytes = _memory("VmRSS")
        limit = _memory("VmSize") + MEMORY_BYTES
        if sys.platform == "linux":
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))

    @property
    def peak_bytes(self) -> int:
        """The most that any case took, beyond what the process had at its start."""
        return max(0, max(self._highest_bytes, _memory("VmHWM")) - self._base_bytes)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        may_raise: tuple[type[Exception], ...] = (RerailError,),
    ) -> Any:
        """The result of a reader; None if it refused with one of the errors that it may raise."""
        with self._bars(getattr(function, "__name__", "call")):
            try:
                return function(*arguments)
            except may_raise:
                return None
            except Exception as error:
                raise Finding("".join(traceback.format_exception(error)[-6:])) from None

    def command(self, *arguments: str, statuses: tuple[int, ...] = STATUSES) -> Printed:
        """`rerail ARGUMENTS` in this process; with --json its answer has to be one document."""
        name = f"rerail {arguments[0]}"
        with self._bars(name), _captured() as (out, err):
            status = main(list(arguments))
        printed = Printed(status, _text(out), _text(err))
        said = printed.err + printed.out
        if "defect of rerail itself" in printed.err:
            raise Finding(f"{name}: {_details(printed.err)}")
        if "Traceback (most recent call last)" in printed.err:
            raise Finding(f"{name} printed a traceback:\n{said[-2000:]}")
        if status not in statuses:
            raise Finding(f"{name} ended with {status}:\n{said[-2000:]}")
        if status == 2 and not printed.err.strip():
            raise Finding(f"{name} ended with 2 and did not say why")
        if "--json" in arguments and status != 2:
            _check_json(name, printed.out)
        return printed

    @contextlib.contextmanager
    def _bars(self, what: str) -> Iterator[None]:
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        try:
            yield
        except MemoryError:
            raise Finding(f"{what} needed more than {MEMORY_BYTES >> 20} MiB") from None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            seconds = time.process_time() - begun
            if seconds > self.slowest_seconds:
                self.slowest_seconds, self.slowest_what = seconds, what


@contextlib.contextmanager
def _captured() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdout, sys.stderr
    wrapped = [io.TextIOWrapper(s, "utf-8", "strict") for s in (out, err)]
    sys.stdout, sys.stderr = wrapped
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before
        for each in wrapped:
            each.detach()


def _text(stream: io.BytesIO) -> str:
    return stream.getvalue().decode("utf-8", "replace")


def _check_json(name: str, text: str) -> None:
    def refuse(word: str) -> None:
        raise Finding(f"{name} --json printed {word}, which is no JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise Finding(f"{name} --json printed no JSON document: {error}\n{text[-500:]}") from None


def _details(said: str) -> str:
    """The traceback that rerail wrote into a file instead of showing it."""
    path = Path(said.partition("details are in ")[2].rpartition(": please")[0])
    try:
        return path.read_text()[-3000:]
    except OSError:
        return said[-2000:]


def _memory(field: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
