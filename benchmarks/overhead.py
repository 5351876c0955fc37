"""What recording costs: throughput of a real torch training, recorded against bare.

Wall time varies by several per cent from run to run on most machines, so bare and recorded runs
alternate, each pair gives one ratio, and the median of the pairs is the figure, with a bootstrap
interval beside it. CPU time per step of the whole tree is the same ratio with less noise.
Other tools run in the same alternation when they are installed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "train_small.py"
BARE = [sys.executable]
RUN_SECONDS_LIMIT = 300.0


def train(prefix: list[str], arguments: list[str], scratch: Path) -> dict[str, float | str]:
    command = [*prefix, str(PROGRAM), *arguments]
    done = subprocess.run(
        command,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_LIMIT,
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            result: dict[str, float | str] = json.loads(line)
            return result
    raise RuntimeError(f"ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def tools(scratch: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    beside = Path(sys.executable).parent

    def path_of(name: str) -> str | None:
        own = beside / name
        return str(own) if own.exists() else shutil.which(name)

    if spy := path_of("py-spy"):
        out = str(scratch / "spy.svg")
        found["py-spy record"] = [
            spy,
            "record",
            "-q",
            "-o",
            out,
            "--subprocesses",
            "--",
            sys.executable,
        ]
    if memray := path_of("memray"):
        found["memray run"] = [memray, "run", "-q", "-f", "-o", str(scratch / "memray.bin")]
    if scalene := path_of("scalene"):
        found["scalene --cpu"] = [scalene, "run", "--cpu-only", "--off"]
    return found


def compare(
    name: str, prefix: list[str], arguments: list[str], rounds: int, scratch: Path
) -> dict[str, float] | None:
    wall, cpu, identical = [], [], True
    for turn in range(rounds):
        order = ["bare", "tool"] if turn % 2 == 0 else ["tool", "bare"]
        results = {}
        try:
            for one in order:
                results[one] = train(prefix if one == "tool" else BARE, arguments, scratch)
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            print(f"{name:<28} failed: {problem}", flush=True)
            return None
        bare, tool = results["bare"], results["tool"]
        wall.append(float(bare["wall"]) / float(tool["wall"]))
        cpu.append(float(bare["cpu"]) / float(tool["cpu"]))
        identical = identical and bare["losses"] == tool["losses"]
    low, high = interval(wall)
    cpu_low, cpu_high = interval(cpu)
    print(
        f"{name:<28} wall {statistics.median(wall):.4f} [{low:.3f}, {high:.3f}]  "
        f"cpu {statistics.median(cpu):.4f} [{cpu_low:.3f}, {cpu_high:.3f}]  "
        f"losses {'identical' if identical else 'DIFFER'}",
        flush=True,
    )
    return {"wall": statistics.median(wall), "cpu": statistics.median(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--others", action="store_true", help="also py-spy, memray and scalene")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        recorder = str(Path(sys.executable).parent / "rerail")
        recorded = [recorder, "run", "--home", str(scratch / "store"), "--", sys.executable]
        print("throughput of the training, tool / bare (1 is free), median [95 %]")
        plain = ["--steps", str(args.steps)]
        compare("rerail run", recorded, plain, args.rounds, scratch)
        loaders = [*plain, "--workers", "8"]
        compare("rerail run, 8 workers", recorded, loaders, args.rounds, scratch)
        if args.others:
            for name, prefix in tools(scratch).items():
                compare(name, prefix, plain, max(3, args.rounds // 4), scratch)


if __name__ == "__main__":
    main()
