"""The record of one run, as the parts of the recorder use it.

In: what a part wants to do or to keep. Out: the same in the run folder; what failed is said there
to be missing, once. Promises: nothing that fails here reaches who asked for it, and so the command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from rerail.store import RunWriter

T = TypeVar("T")


class RunRecord:
    def __init__(self, writer: RunWriter, told: Iterable[str] = ()) -> None:
        self.writer = writer
        self.told = set(told)  # what was said to be missing already
        self.on_output: Callable[[bytes, str], None] | None = None  # who else reads the output

    def miss(self, what: str, why: str) -> None:
        """Say once what the record lacks."""
        with suppress(Exception):  # nobody is left to be told
            if what not in self.told:
                self.told.add(what)
                self.writer.event("missing", what=what, why=why)

    def failed(self, what: str, error: BaseException) -> None:
        self.miss(what, f"{type(error).__name__}: {error}")

    def attempt(self, what: str, action: Callable[[], T]) -> T | None:
        """Do it; None if it fails, and then it is missing."""
        try:
            return action()
        except Exception as error:
            self.failed(what, error)
            return None

    def keep_output(self, data: bytes, stream: str) -> None:
        """A record that cannot be written must not stop the output itself."""
        self.attempt("output", lambda: self.writer.output(data, stream, self.writer.now()))
        if self.on_output is not None:
            try:
                self.on_output(data, stream)
            except Exception as error:
                self.on_output = None
                self.failed("reading of output", error)
