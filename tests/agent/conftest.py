"""Runs a program bare and with the agent in it, and reads what the agent wrote."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rerail.agent import inject, native_library
from rerail.records import BlackBox, Crash
from rerail.store.blackbox import read_box
from rerail.store.crashfile import read_crash

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"
# Variables of the agent itself: what a bare run must not have, should the tests run recorded.
OURS = ("RERAIL_AGENT", "RERAIL_T0", "PYTHONPATH", "LD_PRELOAD", "PYTHONFAULTHANDLER")


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def boxes(self) -> list[BlackBox]:
        found = [read_box(path, 0) for path in sorted(self.folder.glob("*.box"))]
        return [box for box in found if box is not None]

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


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    """run(arguments, agent=True, …): a Python program with or without the agent."""
    if native_library() is None:
        pytest.skip("the agent's C library was not built here")

    def start(
        arguments: list[str],
        *,
        agent: bool = True,
        python: str = sys.executable,
        environ: dict[str, str] | None = None,
        preload: bool | None = None,
        folder: Path | None = None,
        seconds: float = 60,
    ) -> Ended:
        variables = {k: v for k, v in os.environ.items() if k not in OURS}
        variables |= {"PYTHONDONTWRITEBYTECODE": "1", **(environ or {})}
        if folder is None:
            folder = tmp_path / f"agent{len(list(tmp_path.glob('agent*')))}"
            folder.mkdir()
        command = [python, *arguments]
        if agent:
            t0 = time.monotonic_ns()
            variables |= inject(folder, variables, command, t0, preload).variables
        done = subprocess.run(
            command,
            env=variables,
            cwd=tmp_path,
            capture_output=True,
            timeout=seconds,
            preexec_fn=no_core,
        )
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return Ended(done.returncode, out, err, folder)

    return start


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C library of faults.c, whose functions the crash records must name."""
    return build(tmp_path_factory.mktemp("faults") / "libfaults.so", HERE / "faults.c", "cc")


@pytest.fixture(scope="session")
def cxx_faults(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("cxx") / "libcxxfaults.so", HERE / "faults.cpp", "c++")


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
    subprocess.run(command, check=True, capture_output=True, timeout=120)
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
