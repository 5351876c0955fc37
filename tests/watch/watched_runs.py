"""Runs to watch: real recorders over small programs that wait for a word before they go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rerail.store import RunFolder

PATIENCE_SECONDS = 180.0

# Prints what it is given, then waits for a line on its standard input; "die" makes it fail.
PROGRAM = """
import sys
print(sys.argv[1], flush=True)
for line in sys.stdin:
    if line.strip() == "die":
        raise RuntimeError("it was told to die")
    print(line.rstrip(), flush=True)
"""


class WatchedRun:
    """`rerail run` of the program above."""

    def __init__(self, home: Path, first_line: str, *, label: str = "watched") -> None:
        before = set((home / "runs").glob("*")) if (home / "runs").exists() else set()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "rerail", "run", "--home", str(home), "--label", label),
                *("--", sys.executable, "-c", PROGRAM, first_line),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        wait_until(lambda: bool(self._printed(home, before)))
        self.folder = RunFolder(self._printed(home, before)[0])

    def _printed(self, home: Path, before: set[Path]) -> list[Path]:
        found = set((home / "runs").glob("*")) - before if (home / "runs").exists() else set()
        return [
            run
            for run in found
            if (run / "output.log").exists() and (run / "output.log").stat().st_size
        ]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def wait_until(is_so: Callable[[], bool]) -> None:
    """With a guard against hanging, not a measure of speed."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
