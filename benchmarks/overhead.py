"""What recording costs: a real torch training, recorded against bare, in turns.

A virtual machine's speed drifts by several per cent within seconds, so two runs after one another
say little about half a per cent. Here both trainings are alive at once and take turns of a third
of a second; whoever has not its turn is stopped, workers and recorder included. Each pair of
neighbouring turns gives one ratio, in wall time and in CPU time of the training's own processes;
the figure is the median of the pairs with a bootstrap interval. Other tools run the same way when
they are installed (`--others`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PROGRAM = Path(__file__).parent / "programs" / "train_small.py"
WARM_UP_BLOCKS = 2


class Training:
    """One training that runs a block at a time, with everything that watches it."""

    def __init__(
        self, prefix: list[str], arguments: list[str], scratch: Path, core: int | None
    ) -> None:
        self.core = core  # the same for both, or one could have the quieter one
        self.main: psutil.Process | None = None  # known after the first block
        self.problems = scratch / "problems.txt"
        with self.problems.open("wb") as errors:
            self.process = subprocess.Popen(
                [*prefix, str(PROGRAM), *arguments],
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def block(self) -> tuple[float, float]:
        """Wall and CPU seconds of the next block."""
        for process in self._others():
            process.resume()
        before = self._cpu_seconds()
        told = self._go_on()
        if self.main is None:
            self.main = psutil.Process(int(told["pid"]))
            if self.core is not None:
                self.main.cpu_affinity([self.core])
        after = self._cpu_seconds()
        for process in self._others():
            process.suspend()
        return float(told["wall"]), after - before

    def finish(self) -> str:
        for process in self._others():
            process.resume()
        losses = str(self._go_on()["losses"])
        self.process.communicate(timeout=60)
        return losses

    def kill(self) -> None:
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            for process in [*family, self.process]:
                process.kill()
            self.process.communicate()

    def _go_on(self) -> dict[str, float | str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(b"{"):
                told: dict[str, float | str] = json.loads(line)
                return told
        raise RuntimeError(self.problems.read_text(errors="replace").strip()[-300:] or "ended")

    def _others(self) -> list[psutil.Process]:
        """All but the training's main process, which waits for its turn by itself."""
        if self.main is None:
            return []
        top = psutil.Process(self.process.pid)
        return [p for p in [top, *top.children(recursive=True)] if p.pid != self.main.pid]

    def _cpu_seconds(self) -> float:
        """Of the training's own processes, to the nanosecond; what watches it is not counted."""
        if self.main is None:
            return 0.0
        total = 0
        for process in [self.main, *self.main.children(recursive=True)]:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9


@contextmanager
def both(
    prefix: list[str], arguments: list[str], scratch: Path
) -> Iterator[tuple[Training, Training]]:
    core = None if "--workers" in arguments else max(os.sched_getaffinity(0))
    bare = Training([sys.executable], arguments, scratch, core)
    tool = Training(prefix, arguments, scratch, core)
    try:
        yield bare, tool
    finally:
        bare.kill()
        tool.kill()


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return medians[25], medians[974]


def compare(name: str, prefix: list[str], arguments: list[str], blocks: int, scratch: Path) -> None:
    wall, cpu = [], []
    arguments = [*arguments, "--blocks", str(blocks + WARM_UP_BLOCKS)]
    try:
        with both(prefix, arguments, scratch) as (bare, tool):
            for turn in range(blocks + WARM_UP_BLOCKS):
                if turn % 2 == 0:
                    of_bare, of_tool = bare.block(), tool.block()
                else:
                    of_tool, of_bare = tool.block(), bare.block()
                if turn >= WARM_UP_BLOCKS:
                    wall.append(of_bare[0] / of_tool[0])
                    cpu.append(of_bare[1] / of_tool[1])
            identical = bare.finish() == tool.finish()
    except (RuntimeError, psutil.Error, subprocess.TimeoutExpired) as problem:
        print(f"{name:<24} failed: {problem}", flush=True)
        return
    low, high = interval(wall)
    cpu_low, cpu_high = interval(cpu)
    print(
        f"{name:<24} wall {statistics.median(wall):.4f} [{low:.3f}, {high:.3f}]  "
        f"cpu {statistics.median(cpu):.4f} [{cpu_low:.3f}, {cpu_high:.3f}]  "
        f"losses {'identical' if identical else 'DIFFER'}",
        flush=True,
    )


def tools(scratch: Path) -> dict[str, list[str]]:
    def path_of(name: str) -> str | None:
        own = Path(sys.executable).parent / name
        return str(own) if own.exists() else shutil.which(name)

    found: dict[str, list[str]] = {}
    if spy := path_of("py-spy"):
        options = ["record", "-q", "-o", str(scratch / "spy.svg"), "--subprocesses", "--"]
        found["py-spy record"] = [spy, *options, sys.executable]
    if memray := path_of("memray"):
        found["memray run"] = [memray, "run", "-q", "-f", "-o", str(scratch / "memray.bin")]
    if scalene := path_of("scalene"):
        found["scalene run"] = [scalene, "run", "--cpu-only", "-o", str(scratch / "scalene.json")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--others", action="store_true", help="also py-spy, memray and scalene")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        recorder = str(Path(sys.executable).parent / "rerail")
        recorded = [recorder, "run", "--home", str(scratch / "store"), "--", sys.executable]
        workers = ["--workers", "8", "--block-steps", "64"]
        print(f"throughput of the training, with / without (1 is free), {os.cpu_count()} cores")
        compare("bare against itself", [sys.executable], [], args.blocks, scratch)
        compare("rerail run", recorded, [], args.blocks, scratch)
        compare("rerail run, 8 workers", recorded, workers, args.blocks, scratch)
        if args.others:
            for name, prefix in tools(scratch).items():
                compare(name, prefix, [], args.blocks // 4, scratch)


if __name__ == "__main__":
    main()
