"""What recording costs where there is little to record: short runs, many forks, much output.

Bare and recorded alternate; each figure is the median of the ratios (or differences) of neighbours.
CPU is user + system time of everything that was started, from the kernel's counters. Bytecode is
written beforehand, as an installer does it.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import rerail

PROGRAMS = Path(__file__).parent / "programs"
FORKS_LIMIT, FIXED_LIMIT_SECONDS, OUTPUT_LIMIT = 1.5, 0.25, 1.3
GIGABYTE = 1_000_000_000


def timed(command: Sequence[str], *, has_reader: bool) -> tuple[float, float]:
    """Wall and CPU seconds; the output goes into a pipe that somebody reads, or nowhere."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    output = subprocess.PIPE if has_reader else subprocess.DEVNULL
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, env=environment())
    if running.stdout is not None:
        reader = subprocess.Popen(["cat"], stdin=running.stdout, stdout=subprocess.DEVNULL)
        running.stdout.close()
        reader.wait()
    if running.wait() != 0:
        raise RuntimeError(f"{command} ended with {running.returncode}")
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def environment() -> dict[str, str]:
    """Without what would have a Python program compile or print differently than it does."""
    unusual = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in unusual}


class Pairs:
    """Bare and recorded, in turns."""

    def __init__(self, command: Sequence[str], pairs: int, *, has_reader: bool = False) -> None:
        home = tempfile.mkdtemp(prefix="rerail-cost-")
        recorder = [str(Path(sys.executable).parent / "rerail"), "run", "--home", home, "--"]
        try:
            taken = [
                (
                    timed(command, has_reader=has_reader),
                    timed([*recorder, *command], has_reader=has_reader),
                )
                for _ in range(pairs)
            ]
        finally:
            shutil.rmtree(home, ignore_errors=True)
        self.wall_ratio = statistics.median(on[0] / off[0] for off, on in taken)
        self.cpu_ratio = statistics.median(on[1] / off[1] for off, on in taken if off[1])
        self.cpu_added = statistics.median(on[1] - off[1] for off, on in taken)
        self.bare_seconds = statistics.median(off[0] for off, _ in taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    compileall.compile_dir(Path(rerail.__file__).parent, quiet=2)
    python, pairs = sys.executable, asked.pairs

    print(f"{pairs} pairs of each, load {os.getloadavg()[0]:.1f}; recorded over bare")
    worst = 0.0
    for name, command in (
        ("2,000 forks", [python, str(PROGRAMS / "many_forks.py"), "2000"]),
        (
            "2,000 forks with threading",
            [python, str(PROGRAMS / "many_forks.py"), "2000", "threads"],
        ),
        ("shell loop, 2,000 programs", ["sh", "-c", "for i in $(seq 2000); do /bin/true; done"]),
    ):
        found = Pairs(command, pairs)
        worst = max(worst, found.cpu_ratio / FORKS_LIMIT)
        print(f"  {name:<28} CPU {found.cpu_ratio:.2f}, wall {found.wall_ratio:.2f} (limit 1.5)")
    for name, command in (
        ("true", ["true"]),
        ("a second of sleep in Python", [python, "-c", "import time; time.sleep(1)"]),
        ("four seconds of it", [python, "-c", "import time; time.sleep(4)"]),
    ):
        found = Pairs(command, pairs)
        worst = max(worst, found.cpu_added / FIXED_LIMIT_SECONDS)
        print(f"  {name:<28} CPU + {found.cpu_added:.3f} s (limit 0.25 s)")
    for name, how in (("1 GB of lines", "lines"), ("1 GB in writes of 64 KiB", "blocks")):
        command = [python, str(PROGRAMS / "much_output.py"), how, str(GIGABYTE)]
        found = Pairs(command, pairs, has_reader=True)
        limit = ""
        if how == "lines":
            worst = max(worst, found.wall_ratio / OUTPUT_LIMIT)
            limit = " (limit 1.3)"
        print(
            f"  {name:<28} wall {found.wall_ratio:.2f}{limit}, CPU {found.cpu_ratio:.2f};"
            f" bare {GIGABYTE / 1e6 / found.bare_seconds:.0f} MB/s"
        )
    return 0 if worst <= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
