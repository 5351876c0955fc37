"""Runs the cases of a target under the bars, and says how to see a failure again.

A target is a file `target_NAME.py` in this folder with a `TARGET`: how an input is made from a
seed, and what is done with it. The seed is all there is to a case: the same seed makes the same
input. Cases run in worker processes, many in each; a worker that a case has killed is replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz_bars import CPU_SECONDS, WALL_SECONDS, Bars, Finding

HERE = Path(__file__).parent
_WHY_KILLED = {
    signal.SIGPROF: f"more than {CPU_SECONDS:.0f} s of processor time",
    signal.SIGALRM: f"more than {WALL_SECONDS:.0f} s without an end",
    signal.SIGKILL: "killed, probably for memory",
}


@dataclass(frozen=True)
class Target:
    """`make(random, folder)` gives an input; `check(input, bars)` raises a Finding or nothing."""

    make: Callable[[random.Random, Path], Any]
    check: Callable[[Any, Bars], None]
    cases: int  # in `make test`


@dataclass
class Summary:
    """What came out of many cases."""

    cases: int = 0
    findings: list[tuple[int, str]] = field(default_factory=list)  # seed, what
    slowest_seconds: float = 0.0
    slowest_what: str = ""
    peak_bytes: int = 0

    def add(self, other: Summary) -> None:
        self.cases += other.cases
        self.findings += other.findings
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest_what = other.slowest_seconds, other.slowest_what


def target_names() -> list[str]:
    return sorted(path.stem.removeprefix("target_") for path in HERE.glob("target_*.py"))


def load_target(name: str) -> Target:
    target: Target = importlib.import_module(f"target_{name}").TARGET
    return target


def replay_command(name: str, seed: int) -> str:
    return f".venv/bin/python tests/fuzz --target {name} --replay {seed}"


def run_case(target: Target, seed: int, bars: Bars, folder: Path) -> None:
    """One case, in this process; `folder` is empty and stays for whoever wants to look."""
    made = target.make(random.Random(seed), folder)
    target.check(made, bars)


def fuzz(
    name: str,
    *,
    first: int = 0,
    cases: int | None = None,
    seconds: float | None = None,
    workers: int = 1,
) -> Summary:
    """So many cases from the seed `first` on, or as many as the time allows."""
    deadline = None if seconds is None else time.monotonic() + seconds
    last = None if cases is None else first + cases
    summary = Summary()
    with ThreadPoolExecutor(workers) as pool:
        for part in pool.map(
            lambda offset: _share(name, first + offset, workers, last, deadline), range(workers)
        ):
            summary.add(part)
    summary.findings.sort()
    return summary


def _share(name: str, seed: int, step: int, last: int | None, deadline: float | None) -> Summary:
    """One worker's cases; when one of them kills it, another goes on after that case."""
    summary = Summary()
    while (last is None or seed < last) and (deadline is None or time.monotonic() < deadline):
        seed = _one_worker(name, seed, step, last, deadline, summary)
    return summary


def _one_worker(
    name: str, seed: int, step: int, last: int | None, deadline: float | None, summary: Summary
) -> int:
    """Until it ends; the seed to go on with."""
    left = -1.0 if deadline is None else max(0.1, deadline - time.monotonic())
    command = [sys.executable, str(HERE), "--target", name]
    command += ["--worker", str(seed), str(step), str(-1 if last is None else last), str(left)]
    running: int | None = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            message = json.loads(line)
            if "begin" in message:
                running = message["begin"]
                continue
            summary.cases += 1
            seed, running = message["seed"] + step, None
            if message["finding"]:
                summary.findings.append((message["seed"], message["finding"]))
            cost = Summary(0, [], message["seconds"], message["what"], message["peak_bytes"])
            cost.slowest_what += f" (seed {message['seed']})"
            summary.add(cost)
    if running is not None:
        summary.cases += 1
        summary.findings.append((running, _why(worker.returncode)))
        return running + step
    if worker.returncode != 0:
        raise RuntimeError(f"the worker for {name} ended with {worker.returncode}")
    return seed if last is not None or deadline is None else sys.maxsize


def _why(status: int) -> str:
    number = -status
    known = _WHY_KILLED.get(number)  # type: ignore[call-overload]
    return known or f"the process ended with {status}"


def work(name: str, seed: int, step: int, last: int, seconds: float) -> None:
    """The worker: a line on standard output before and after every case."""
    talk = os.fdopen(os.dup(1), "w", buffering=1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    target = load_target(name)
    deadline = time.monotonic() + seconds if seconds >= 0 else None
    with scratch_folder() as scratch:
        bars = Bars()
        talk.write(json.dumps({"begin": seed}) + "\n")
        bars.start()
        with contextlib.suppress(Finding):
            run_case(target, seed, bars, fresh(scratch))
        bars.start()  # what is imported is not the first case's cost
        for number in _seeds(seed, step, last, deadline):
            talk.write(json.dumps({"begin": number}) + "\n")
            bars.slowest_seconds = 0.0
            finding = ""
            try:
                run_case(target, number, bars, fresh(scratch))
            except Finding as error:
                finding = str(error)
            message = {
                "seed": number,
                "finding": finding,
                "seconds": round(bars.slowest_seconds, 3),
                "what": bars.slowest_what,
                "peak_bytes": bars.peak_bytes,
            }
            talk.write(json.dumps(message) + "\n")


def _seeds(seed: int, step: int, last: int, deadline: float | None) -> Iterator[int]:
    while (last < 0 or seed < last) and (deadline is None or time.monotonic() < deadline):
        yield seed
        seed += step


class scratch_folder:  # noqa: N801 - used as a function
    """A folder that is also the working folder, the place for temporary files, and no store."""

    def __enter__(self) -> Path:
        self._before = Path.cwd()
        self.path = Path(tempfile.mkdtemp(prefix="rerail-fuzz-"))
        os.chdir(self.path)
        tempfile.tempdir = str(self.path)
        for name in [n for n in os.environ if n.startswith("RERAIL_")]:
            del os.environ[name]
        return self.path

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
        tempfile.tempdir = None
        shutil.rmtree(self.path, ignore_errors=True)


def fresh(scratch: Path) -> Path:
    """An empty folder for one case, which is the working folder too."""
    folder = scratch / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    return folder
