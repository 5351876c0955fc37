"""What recording costs a real torch training: recorded against bare, in turns of one process.

Two processes of the same program differ by several per cent for as long as they live (where their
pages lie), and a virtual machine drifts by as much within seconds; half a per cent is not to be
seen between two runs. So one training takes turns of a third of a second: in one the recorder
runs and the agent's hooks are in, in the next it is stopped and they are out. Each pair of
neighbouring turns gives one ratio, in wall time and in CPU time of the training's own processes;
the figure is the median of the pairs with a bootstrap interval. Beside it the same with nothing
switched, which shows what the method can see. py-spy, memray and scalene cannot be switched:
`--others` compares processes, several of each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

PROGRAM = Path(__file__).parent / "programs" / "train_small.py"
WARM_UP_TURNS = 4
ANSWER_SECONDS = 60.0
BARE = [sys.executable]


class Training:
    """One training that runs a block at a time, with everything that watches it."""

    def __init__(self, prefix: list[str], arguments: list[str], blocks: int, scratch: Path) -> None:
        self.problems = scratch / "problems.txt"
        # Not through its standard output: a recorder that is stopped passes nothing on.
        answers = scratch / "answers"
        answers.unlink(missing_ok=True)
        os.mkfifo(answers)
        command = [*prefix, str(PROGRAM), *arguments, "--blocks", str(blocks)]
        command += ["--answers", str(answers)]
        with self.problems.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self.answers = os.fdopen(os.open(answers, os.O_RDWR), "rb", buffering=0)
        self.main: psutil.Process | None = None  # known after the first block

    def block(self, word: str = "on", *, is_watched: bool = True) -> tuple[float, float]:
        """Wall and CPU seconds of the next block."""
        for process in self._watchers():
            with contextlib.suppress(psutil.NoSuchProcess):  # a copy of the boxes that is done
                process.resume() if is_watched else process.suspend()
        before = self._cpu_seconds()
        told = self._say(word)
        if self.main is None:
            self.main = psutil.Process(int(told["pid"]))
        return float(told["wall"]), self._cpu_seconds() - before

    def finish(self) -> str:
        for process in self._watchers():
            process.resume()
        losses = str(self._say("end")["losses"])
        self.process.communicate(timeout=60)
        return losses

    def kill(self) -> None:
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            for process in [*family, self.process]:
                process.kill()
            self.process.communicate()

    def _say(self, word: str) -> dict[str, float | str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.answers], [], [], ANSWER_SECONDS)
        if not ready:
            raise RuntimeError(self.problems.read_text(errors="replace").strip()[-300:] or "silent")
        told: dict[str, float | str] = json.loads(self.answers.readline())
        return told

    def _own(self) -> list[psutil.Process]:
        assert self.main is not None
        return [self.main, *self.main.children(recursive=True)]

    def _watchers(self) -> list[psutil.Process]:
        """Everything that was started and is not the training itself."""
        if self.main is None:
            return []
        own = {process.pid for process in self._own()}
        top = psutil.Process(self.process.pid)
        return [p for p in [top, *top.children(recursive=True)] if p.pid not in own]

    def _cpu_seconds(self) -> float:
        """Of the training's own processes, to the nanosecond; what watches it is not counted."""
        if self.main is None:
            return 0.0
        total = 0
        for process in self._own():
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return medians[25], medians[974]


def tell(name: str, wall: list[float], cpu: list[float], extra: str = "") -> None:
    low, high = interval(wall)
    cpu_low, cpu_high = interval(cpu)
    print(
        f"{name:<24} wall {statistics.median(wall):.4f} [{low:.3f}, {high:.3f}]  "
        f"cpu {statistics.median(cpu):.4f} [{cpu_low:.3f}, {cpu_high:.3f}]  {extra}",
        flush=True,
    )


def in_turns(
    name: str, prefix: list[str], arguments: list[str], pairs: int, scratch: Path, *, switches: bool
) -> None:
    training = Training(prefix, arguments, 2 * pairs + WARM_UP_TURNS, scratch)
    wall, cpu = [], []
    try:
        for _ in range(WARM_UP_TURNS):
            training.block()
        for turn in range(pairs):
            taken = {}
            for is_on in (True, False) if turn % 2 else (False, True):
                is_watched = is_on or not switches
                taken[is_on] = training.block("on" if is_watched else "off", is_watched=is_watched)
            wall.append(taken[False][0] / taken[True][0])
            cpu.append(taken[False][1] / taken[True][1])
        training.finish()
    finally:
        training.kill()
    tell(name, wall, cpu)


def between_processes(name: str, prefix: list[str], times: int, scratch: Path) -> None:
    wall, cpu = [], []
    for turn in range(times):
        taken = {}
        for is_bare in (True, False) if turn % 2 else (False, True):
            training = Training(BARE if is_bare else prefix, [], 12, scratch)
            try:
                blocks = [training.block() for _ in range(12)][2:]
                taken[is_bare] = [statistics.median(values) for values in zip(*blocks, strict=True)]
                training.finish()
            except (RuntimeError, psutil.Error, subprocess.TimeoutExpired) as problem:
                print(f"{name:<24} failed: {problem}", flush=True)
                return
            finally:
                training.kill()
        wall.append(taken[True][0] / taken[False][0])
        cpu.append(taken[True][1] / taken[False][1])
    tell(name, wall, cpu, f"{times} processes each")


def losses_are_identical(recorded: list[str], scratch: Path) -> bool:
    found = set()
    for prefix in (BARE, recorded):
        training = Training(prefix, [], 5, scratch)
        try:
            for _ in range(5):
                training.block()
            found.add(training.finish())
        finally:
            training.kill()
    return len(found) == 1


def tools(scratch: Path) -> dict[str, list[str]]:
    def path_of(name: str) -> str | None:
        own = Path(sys.executable).parent / name
        return str(own) if own.exists() else shutil.which(name)

    found: dict[str, list[str]] = {}
    if spy := path_of("py-spy"):
        options = ["record", "-o", str(scratch / "spy.svg"), "--subprocesses", "--"]
        found["py-spy record"] = [spy, *options, sys.executable]
    if memray := path_of("memray"):
        found["memray run"] = [memray, "run", "-q", "-f", "-o", str(scratch / "memray.bin")]
    if scalene := path_of("scalene"):
        found["scalene run"] = [scalene, "run", "--cpu-only", "-o", str(scratch / "scalene.json")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--others", action="store_true", help="also py-spy, memray and scalene")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        recorder = str(Path(sys.executable).parent / "rerail")
        recorded = [recorder, "run", "--home", str(scratch / "store"), "--", sys.executable]
        workers = ["--workers", "8", "--block-steps", "64"]
        same = "identical" if losses_are_identical(recorded, scratch) else "DIFFERENT"
        print(f"losses recorded and bare: {same}")
        print("throughput of the training, recorded / bare (1 is free), median [95 %]")
        in_turns("nothing switched", BARE, [], args.pairs, scratch, switches=False)
        in_turns("rerail run", recorded, [], args.pairs, scratch, switches=True)
        in_turns("rerail run, 8 workers", recorded, workers, args.pairs, scratch, switches=True)
        if args.others:
            for name, prefix in tools(scratch).items():
                between_processes(name, prefix, 5, scratch)


if __name__ == "__main__":
    main()
