"""Is a slow rank named soon, and is none named in a healthy job?

    python -m benchmarks.stragglers                simulated jobs
    python -m benchmarks.stragglers --real 10      and real gloo jobs of 3 ranks, so many of each

A simulated rank needs 50 ms a step, with noise of its own: each step by chance (log-normal, with
the coefficient of variation in the table), and, in half of the table, now and then for a while: a
burst, as of a neighbour that takes the processor, +30 % for 4 to 12 steps, once in 200 steps of
each rank. All wait for the slowest. A look is taken every 0.25 s, as the recorder does. Slow jobs
have a rank that needs 20 % more from step 100 on. Real jobs train 500 steps; in the slow ones one
rank sleeps 20 % longer from step 100 on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rerail.agent import rerail_layout as layout
from rerail.recorder.stragglers.counters import RankCounters
from rerail.recorder.stragglers.judgement import Sample, Slow, Stragglers

STEP_SECONDS, LOOK_SECONDS, STEPS, SLOW_FROM = 0.05, 0.25, 500, 100
PROGRAM = Path(__file__).parents[1] / "tests" / "programs" / "straggling.py"


def simulate(ranks: int, noise: float, bursts: float, excess: float, seed: int) -> Slow | None:
    """The first that is named in a job; with `excess` rank 1 is slow from step 100 on."""
    chance = random.Random(seed)
    sigma = math.sqrt(math.log(1 + noise**2))
    watch = Stragglers()
    now = next_look = 0.0
    waited = [0.0] * ranks
    burst = [0] * ranks
    for step in range(1, STEPS + 1):
        own = []
        for rank in range(ranks):
            if burst[rank] == 0 and chance.random() < bursts:
                burst[rank] = chance.randint(4, 12)
            burst[rank] -= burst[rank] > 0
            seconds = STEP_SECONDS * chance.lognormvariate(-sigma * sigma / 2, sigma)
            seconds *= 1.3 if burst[rank] else 1.0
            own.append(seconds * (1 + excess if rank == 1 and step > SLOW_FROM else 1.0))
        slowest = max(own)
        now += slowest
        waited = [w + slowest - o for w, o in zip(waited, own, strict=True)]
        if now >= next_look:
            next_look = now + LOOK_SECONDS
            found = watch.look(
                [
                    Sample(rank, 1000 + rank, step, int(now * 1e9), int(waited[rank] * 1e9), 0)
                    for rank in range(ranks)
                ]
            )
            if isinstance(found, Slow):
                return found
    return None


def table(jobs: int) -> None:
    print("| ranks | noise of a step | bursts | healthy jobs with one named | slow rank named |")
    print("|---|---|---|---|---|")
    for bursts in (0.0, 1 / 200):
        for ranks in (3, 8, 64):
            for noise in (0.05, 0.1, 0.2):
                row(ranks, noise, bursts, jobs if ranks < 64 else max(10, jobs // 10))


def row(ranks: int, noise: float, bursts: float, jobs: int) -> None:
    wrong = sum(simulate(ranks, noise, bursts, 0.0, seed) is not None for seed in range(jobs))
    found = [simulate(ranks, noise, bursts, 0.2, 10**6 + seed) for seed in range(jobs)]
    right = [f for f in found if f is not None and f.rank == 1 and f.at_step > SLOW_FROM]
    soon = sum(f.at_step - SLOW_FROM <= 50 for f in right)
    print(
        f"| {ranks} | {noise:.0%} | {'yes' if bursts else 'no'} | {wrong} of {jobs} "
        f"| {soon} of {jobs} within 50 steps, {len(right)} at all |",
        flush=True,
    )


def real(count: int) -> None:
    for name, excess in (("healthy", 0.0), ("slow", 0.2)):
        told = []
        for seed in range(count):
            told.append(record(excess, seed % 3))
            print(f"{name} job {seed}: {told[-1] or 'none named'}", flush=True)
        named = [each for each in told if each]
        print(f"{name}: one is named in {len(named)} of {count} real jobs")


def record(excess: float, victim: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(PROGRAM), "--excess", str(excess), "--victim", str(victim)]
        subprocess.run(
            [sys.executable, "-m", "rerail", "run", "-q", "--home", folder, "--", *command],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        events = next(Path(folder).glob("runs/*/events.jsonl")).read_text().splitlines()
    found = [e for line in events if (e := json.loads(line))["kind"] == "straggler"]
    return "; ".join(f"at step {e['at_step']}: {e['text']}" for e in found)


def look_cost(ranks: int = 8) -> None:
    """What the recorder pays for looking at the ranks, four times a second."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(ranks):
            octets = bytearray(layout.SIZE)
            octets[:8] = layout.MAGIC
            words = memoryview(octets).cast("q")
            words[layout.HEAD["pid"] // 8] = os.getpid()
            words[layout.WORD["rank"]], words[layout.WORD["optimizer_steps"]] = rank, 7
            at = layout.AREA["history"] // 8 + 7 * layout.HISTORY_WORDS
            words[at], words[at + 1] = 7, 10**9
            Path(folder, f"{rank}-1.box").write_bytes(octets)
        counters = RankCounters(Path(folder))
        assert len(counters.read()) == ranks
        began = time.process_time()
        for _ in range(1000):
            counters.read()
        each = (time.process_time() - began) / 1000
        counters.close()
    print(f"one look at {ranks} ranks: {1e6 * each:.0f} µs, {400 * each:.3f} % of a processor")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--real", type=int, default=0)
    arguments = parser.parse_args()
    look_cost()
    if arguments.jobs:
        table(arguments.jobs)
    if arguments.real:
        real(arguments.real)
    return 0


if __name__ == "__main__":
    sys.exit(main())
