"""Fuzz for as long as asked, or see one case again.

.venv/bin/python tests/fuzz --seconds 600 --target run_folder
.venv/bin/python tests/fuzz --target run_folder --replay 1234
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from fuzz_bars import Bars, Finding
from fuzz_runner import (
    fresh,
    fuzz,
    load_target,
    replay_command,
    run_case,
    scratch_folder,
    target_names,
    work,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/fuzz", description=__doc__)
    parser.add_argument("--target", choices=target_names(), help="one alone, not all in turn")
    parser.add_argument("--seconds", type=float, help="for each target")
    parser.add_argument("--cases", type=int, help="for each target")
    parser.add_argument("--first", type=int, help="the first seed; by default never the same")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replay", type=int, metavar="SEED", help="one case, kept to look at")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        seed, step, last, seconds = asked.worker
        work(asked.target, int(seed), int(step), int(last), float(seconds))
        return 0
    if asked.replay is not None:
        return _replay(asked.target, asked.replay)
    first = asked.first if asked.first is not None else time.time_ns() // 1_000_000 % 10**9
    seconds = asked.seconds if asked.seconds or asked.cases else 60.0
    status = 0
    for name in [asked.target] if asked.target else target_names():
        found = fuzz(name, first=first, cases=asked.cases, seconds=seconds, workers=asked.workers)
        print(
            f"{name}: {found.cases} cases from seed {first}, {len(found.findings)} findings;"
            f" slowest {found.slowest_seconds:.2f} s ({found.slowest_what}),"
            f" {found.peak_bytes >> 20} MiB at most",
            flush=True,
        )
        for seed, what in found.findings:
            print(f"\n--- see it again: {replay_command(name, seed)}\n{what}", flush=True)
            status = 1
    return status


def _replay(name: str, seed: int) -> int:
    target = load_target(name)
    kept = Path.cwd() / f"fuzz-{name}-{seed}"
    with scratch_folder() as scratch:
        folder = fresh(scratch)
        bars = Bars()
        bars.start()
        try:
            run_case(target, seed, bars, folder)
        except Finding as error:
            print(f"{error}\n\n{bars.slowest_seconds:.2f} s at most")
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)
            print(f"The case is kept in {kept}")
            return 1
    print(f"It holds the bars: {bars.slowest_seconds:.2f} s, {bars.peak_bytes >> 20} MiB.")
    return 0


sys.exit(main())
