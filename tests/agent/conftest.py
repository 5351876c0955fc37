"""Runs a program bare and with the agent in it, and reads what the agent wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_runs import HERE, Ended, Runner, build, no_core

from rerail.agent import inject, native_library

# Variables of the agent itself: what a bare run must not have, should the tests run recorded.
OURS = ("RERAIL_AGENT", "RERAIL_T0", "PYTHONPATH", "LD_PRELOAD", "PYTHONFAULTHANDLER")


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
        seconds: float = 240,  # a machine under load, not a measure of anything
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
