"""Training throughput of twotower beside a straightforward script: prints the ratio, at least 1.3.

    .venv/bin/python -m benchmarks.twotower_training [--rounds 3] [--steps 3] [--threads 2]
                                                   [--profile cpu|seed]

Same model, batch, data, first weights and order; the losses have to agree. The sequences have the
incident's length (100) and the memory bank is full from the start (50,000), as it is after the
first hundred steps of a real run. The two sides take turns, each in a process of its own; the
first step of each is left out. Wall time and CPU time are both given: other programs on the
machine disturb the second less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROFILES = {"cpu": (8, 64), "seed": (32, 16)}
FILLED, LENGTH, WANTED = 50_000, 100, 1.3


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of both sides")
    parser.add_argument("--profile", choices=PROFILES, help="only this one")
    parser.add_argument("--ours", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    if args.ours:
        folder, batch_size, accum, steps = args.ours
        print(json.dumps(train_ours(Path(folder), int(batch_size), int(accum), int(steps))))
        return 0
    from twotower.synthetic import write_synthetic

    status = 0
    with tempfile.TemporaryDirectory(prefix="twotower-") as folder:
        rows = 512 * args.steps
        write_synthetic(Path(folder), rows, LENGTH, FILLED + 10_000, val_rows=1)
        for profile, (batch_size, accum) in PROFILES.items():
            if args.profile not in (None, profile):
                continue
            status |= compare(folder, profile, batch_size, accum, args.steps, args.rounds)
    return status


def compare(folder: str, profile: str, batch_size: int, accum: int, steps: int, rounds: int) -> int:
    sizes = [str(batch_size), str(accum), str(steps)]
    ours = ["-m", "benchmarks.twotower_training", "--ours", folder, *sizes]
    theirs = [str(HERE / "twotower_baseline.py"), folder, "--filled", str(FILLED)]
    for flag, value in zip(("--bs", "--accum", "--steps"), sizes, strict=True):
        theirs += [flag, value]
    results: dict[str, list[Any]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, command in (("theirs", theirs), ("ours", ours)):
            output = subprocess.run(
                [sys.executable, *command], cwd=HERE.parent, check=True, stdout=subprocess.PIPE
            ).stdout
            results[side].append(json.loads(output.splitlines()[-1]))
    apart = max(
        abs(a - b) / b
        for a, b in zip(results["ours"][0]["losses"], results["theirs"][0]["losses"], strict=True)
    )
    wall, cpu = (
        median_of(results["theirs"], clock) / median_of(results["ours"], clock)
        for clock in ("seconds", "cpu_seconds")
    )
    rate = 512 / median_of(results["ours"], "seconds")
    print(
        f"{profile:5} {batch_size} x {accum}: {wall:.2f} times the throughput "
        f"({cpu:.2f} by CPU time), {rate:.1f} rows/s; losses differ by {apart:.1e}",
        flush=True,
    )
    return int(apart > 1e-3 or max(wall, cpu) < WANTED)


def median_of(results: list[dict[str, list[float]]], clock: str) -> float:
    return statistics.median(second for result in results for second in result[clock][1:])


def train_ours(folder: Path, batch_size: int, accum: int, steps: int) -> dict[str, list[float]]:
    """`twotower train`, with the memory bank filled first and every step timed."""
    import torch
    from twotower.config import build_config
    from twotower.dataset import open_data
    from twotower.journal import Journal
    from twotower.ranks import Ranks
    from twotower.train import Trainer

    data = open_data(folder / "pairs.npz", folder / "bank.npz")
    places = {"pairs": str(data.pairs_path), "bank": str(data.bank_path)}
    sizes = {"batch_size": batch_size, "accum": accum, "steps": steps}
    plain = {"start": "random", "miner": "none", "device": "cpu", "checkpoint_every": 10**6}
    config = build_config({**places, **sizes, **plain})
    measured: dict[str, list[float]] = {"losses": [], "seconds": [], "cpu_seconds": []}

    class Timed(Trainer):
        def _finish_step(self, loss: float, elapsed: float) -> None:
            super()._finish_step(loss, elapsed)
            now = (time.perf_counter(), time.process_time())
            measured["losses"].append(loss)
            measured["seconds"].append(now[0] - self.clock[0])
            measured["cpu_seconds"].append(now[1] - self.clock[1])
            self.clock = now

        def _end_epoch(self, epoch: int) -> None:
            pass

    with tempfile.TemporaryDirectory() as run:
        journal = Journal(Path(run), is_first=False, has_bar=False)
        trainer = Timed(config, data, Ranks(), Path(run), journal)
        filled = torch.arange(FILLED)
        trainer.memory.push(torch.from_numpy(data.bank_MD[:FILLED].copy()), filled)
        trainer.clock = (time.perf_counter(), time.process_time())
        trainer.train()
    return measured


if __name__ == "__main__":
    sys.exit(main())
