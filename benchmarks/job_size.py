"""How long does `rerail explain JOB` take for a large job? The signs of 256, 1,024 and 4,096 nodes.

    python -m benchmarks.job_size

One node vanishes, all others fail 100 s later; clocks are off by 30 s (standard deviation), and
stamps are read 0.1 to 2.5 s after they were written. Signs only, no copies of records.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from rerail.jobs import explain_job, find_job

RANKS_PER_NODE = 8
CHILDREN = 8


def main() -> int:
    for count in (256, 1024, 4096):
        with tempfile.TemporaryDirectory(prefix="rerail-job-") as folder:
            lost = write_job(Path(folder), count)
            began = time.perf_counter()
            place = find_job(folder)
            assert place is not None
            diagnosis = explain_job(place)
            seconds = time.perf_counter() - began
        job = diagnosis.job or {}
        spreads = sorted(each["offset_uncertainty_seconds"] for each in job["nodes"])
        is_right = job["first"]["node"] == lost
        print(
            f"{count:5,} nodes, {count * RANKS_PER_NODE:6,} ranks: {seconds:5.2f} s, "
            f"{'right' if is_right else 'WRONG'}, clocks to ± {spreads[len(spreads) // 2]:.1f} s"
            f" (worst {spreads[-1]:.1f} s)"
        )
    return 0


def write_job(folder: Path, count: int) -> str:
    chance = random.Random(count)
    names = [f"n{at:05d}" for at in range(count)]
    starts = {name: chance.uniform(0, 30) for name in names}
    lost = chance.choice(names)
    for at, name in enumerate(names):
        end = (300.0 if name == lost else 400.0) - starts[name]
        wall = 1e9 + starts[name] + chance.gauss(0, 30)
        peers = names[CHILDREN * at + 1 : CHILDREN * at + CHILDREN + 1]
        peers += [names[(at - 1) // CHILDREN]] if at else []
        heard = {}
        for peer in peers:
            times = [end - 60.0 * bucket for bucket in range(3)]
            shift = starts[name] - starts[peer]
            heard[peer] = [[t, t + shift - chance.uniform(0.1, 2.5)] for t in times]
        ranks = range(at * RANKS_PER_NODE, (at + 1) * RANKS_PER_NODE)
        signs = {
            "hello": {"node": name, "host": name, "node_rank": at, "expected": count, "t": 0.0},
            "beat": {"t": end, "ranks": [{"rank": r, "step": 412} for r in ranks], "heard": heard},
            "goodbye": {"t": end, "outcome": "exit", "summary": "exit code 1"},
        }
        if name == lost:
            del signs["goodbye"]
        (folder / name).mkdir()
        for sign, fields in signs.items():
            path = folder / name / f"run.{sign}.json"
            path.write_text(json.dumps({"schema": 1, "unix": wall, **fields}))
            os.utime(path, (1e9, 1e9))
    return lost


if __name__ == "__main__":
    sys.exit(main())
