"""What the agent's tests share: a finished process with what the agent wrote of it."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rerail.records import BlackBox, Crash
from rerail.store.blackbox import read_all_boxes
from rerail.store.crashfile import read_crash

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def boxes(self) -> list[BlackBox]:
        return read_all_boxes(self.folder, 0)

    @property
    def crashes(self) -> list[Crash]:
        found = [read_crash(path, 0) for path in sorted(self.folder.glob("*.crash"))]
        return [crash for crash in found if crash is not None]

    @property
    def crash(self) -> Crash:
        assert len(self.crashes) == 1, (self.crashes, self.stderr)
        return self.crashes[0]

    @property
    def box(self) -> BlackBox:
        """Of the process that was started."""
        return min(self.boxes, key=lambda box: box.started_t_seconds)


Runner = Callable[..., Ended]


def no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def build(target: Path, source: Path, compiler: str) -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here to build {source.name}")
    command = [
        compiler,
        "-g",
        "-O1",
        "-fPIC",
        "-shared",
        "-pthread",
        "-o",
        str(target),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    return str(target)


def library_functions(crash: Crash, library: str) -> list[str]:
    """Names of the functions of `library` on the crashed thread's stack, innermost first."""
    lines = subprocess.run(
        ["nm", "-n", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    symbols = [
        (int(parts[0], 16), parts[2])
        for parts in (line.split() for line in lines)
        if len(parts) == 3 and parts[1] in "tT"
    ]
    base = next((m.base for m in crash.libraries if m.path == library), None)
    found = []
    for frame in crash.threads[0].native:
        if frame.library == library and base is not None:
            below = [name for at, name in symbols if at <= frame.address - base]
            found.append(below[-1])
    return found
