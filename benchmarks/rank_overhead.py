"""What recording costs each of two gloo ranks: CPU time in the rank, and CPU time of the recorder.

    python -m benchmarks.rank_overhead

In the rank, by two methods. One job under `rerail run` takes the agent's hooks in and out in turns
(programs/train_ranks.py); each pair of neighbouring blocks gives a ratio of the CPU times of a
step, and the figure is the median of them with a bootstrap interval. Beside it the ratio of blocks
that do not differ, which shows what the method can see on this machine. And the hooks by
themselves (programs/rank_hooks.py): what they add to each part of a small step, in microseconds,
with caches as cold as in a real one; that sum over the CPU time of a step of the job. Beside the
rank: the CPU time of rerail's own processes while the job is under way, as a share of one
processor per rank.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.agent_step_cost import run_once
from benchmarks.overhead import interval

PROGRAMS = Path(__file__).parent / "programs"
WARM_UP_BLOCKS = 20
RANKS = 2


def own_cpu_seconds(recorder: psutil.Process) -> float:
    """Of the recorder and the processes that it keeps beside the command."""
    total = 0.0
    for process in [recorder, *recorder.children()]:
        try:
            is_ours = process is recorder or process.name().startswith("rerail")
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system if is_ours else 0.0
    return total


def measure(folder: Path, blocks: int, block_steps: int) -> tuple[list[list[float]], int, float]:
    """CPU seconds of the blocks of each rank, how many hooks, and the recorder's share."""
    command = [sys.executable, "-m", "rerail", "run", "-q", "--home", str(folder / "home"), "--"]
    command += [
        sys.executable,
        str(PROGRAMS / "train_ranks.py"),
        str(folder),
        str(blocks),
        str(block_steps),
    ]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    recorder = psutil.Process(running.pid)
    while not (folder / "steady").exists() and running.poll() is None:
        time.sleep(0.05)
    began, used = time.monotonic(), own_cpu_seconds(recorder)
    lasted = spent = 0.0
    while not (folder / "1.json").exists() and running.poll() is None:
        time.sleep(0.05)
        if not (folder / "0.json").exists():
            lasted, spent = time.monotonic() - began, own_cpu_seconds(recorder) - used
    if running.wait() != 0:
        raise SystemExit(f"the job failed: {' '.join(command)}")
    told = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    return [t["blocks"][WARM_UP_BLOCKS:] for t in told], told[0]["hooks"], spent / lasted


def hooks_alone(steps: int, step_us: float) -> None:
    program = str(PROGRAMS / "rank_hooks.py")
    with tempfile.TemporaryDirectory() as folder:
        told = json.loads(run_once([program, str(steps)], Path(folder))[0])
    total, low, high = added(told["in"], told["out"], range(len(told["parts"])))
    for at, name in enumerate(told["parts"]):
        print(
            f"  {name:<10} {{:6.1f}} µs [{{:.1f}}, {{:.1f}}]".format(
                *added(told["in"], told["out"], [at])
            )
        )
    print(
        f"  all hooks  {total:6.1f} µs [{low:.1f}, {high:.1f}] a step, of {step_us:,.0f} µs:",
        end="",
    )
    print(f" {total / step_us:.2%} [{low / step_us:.2%}, {high / step_us:.2%}]")


def added(
    inside: list[list[float]], outside: list[list[float]], parts: Iterable[int]
) -> tuple[float, float, float]:
    """The sum over the parts of the difference of medians, and its 95 % bootstrap interval."""
    draw = random.Random(0)

    def once(first: list[list[float]], second: list[list[float]]) -> float:
        return sum(
            statistics.median(e[at] for e in first) - statistics.median(e[at] for e in second)
            for at in parts
        )

    drawn = sorted(
        once(draw.choices(inside, k=len(inside)), draw.choices(outside, k=len(outside)))
        for _ in range(400)
    )
    return once(inside, outside), drawn[10], drawn[389]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=340)
    parser.add_argument("--block-steps", type=int, default=40)
    parser.add_argument("--hook-steps", type=int, default=8000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ranks, hooks, share = measure(Path(folder), given.blocks, given.block_steps)
    ratios: list[float] = []
    same: list[float] = []
    for blocks in ranks:
        ratios += [a / b if at % 2 == 0 else b / a for at, (a, b) in enumerate(pairwise(blocks))]
        on = blocks[::2]
        same += [b / a if at % 2 else a / b for at, (a, b) in enumerate(pairwise(on))]
    step = statistics.median(ranks[0][1::2])
    for name, values in (("hooks in / out", ratios), ("in / in", same)):
        low, high = interval(values)
        print(f"{name:<16} {statistics.median(values):.4f} [{low:.4f}, {high:.4f}]")
    print(f"{hooks} hooks, {1000 * step:.2f} ms of CPU time a step without them")
    hooks_alone(given.hook_steps, 1e6 * step)
    print(
        f"the recorder beside {RANKS} ranks: {share:.2%} of a processor, {share / RANKS:.2%} a rank"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
