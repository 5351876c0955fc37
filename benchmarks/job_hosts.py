"""Three hosts (network namespaces), one fault on one of them, a clock 90 s wrong: is it named?

    python -m benchmarks.job_hosts [SEEDS]     as root; about half a minute for each fault and seed

For each kind of fault and seed: which host it is, the step, and whose clock is wrong are drawn.
Counted: the host named first is the right one, and the fault comes before every other ending on the
clock of the job. Beside it: who ended first by the time of day, which is what sorted logs say.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "jobs"))
from network_hosts import Hosts  # noqa: E402

PROGRAMS = ROOT / "tests" / "programs"
NAMES = ("a", "b", "c")
FAULTS = ("link", "raise", "kill", "exit0", "sleep", "absent")


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows = [row(fault, seed) for seed in range(seeds) for fault in FAULTS]
    right = sum(each["is_right"] for each in rows)
    ordered = [each["is_ordered"] for each in rows if each["is_ordered"] is not None]
    walls = [each["by_wall"] for each in rows if each["by_wall"] is not None]
    spreads = [spread for each in rows for spread in each["spreads"]]
    print(f"host named right: {right} of {len(rows)}")
    print(f"order right: {sum(ordered)} of {len(ordered)}")
    print(
        f"host that ended first by the time of day is the right one: {sum(walls)} of {len(walls)}"
    )
    print(f"clocks known to, at worst: ± {max(spreads):.3f} s")
    return 0


def row(fault: str, seed: int) -> dict[str, Any]:
    chance = random.Random(f"{fault} {seed}")
    victim = chance.choice(("b", "c"))
    wrong, seconds = chance.choice(NAMES), chance.choice((-90, 90))
    step = chance.randint(15, 40)
    with tempfile.TemporaryDirectory(prefix="rerail-hosts-") as folder:
        document = job(Path(folder), fault, victim, wrong, seconds, step)
    nodes = document["job"]["nodes"]
    first = document["job"].get("first") or {}
    others = [n["last_seen_seconds"] for n in nodes if n["node"] != victim]
    is_right = first.get("node") == victim
    if fault == "absent":
        is_right = first.get("how") == "never-came"
    is_ordered = None
    if first.get("t_seconds") is not None:
        is_ordered = all(first["t_seconds"] <= t for t in others)
    ends = {
        n["node"]: n["last_seen_seconds"] + (n["clock_ahead_seconds"] or 0.0)
        for n in nodes
        if n["state"] in ("failed", "ended")
    }
    by_wall = min(ends, key=lambda name: ends[name]) == victim if ends else None
    print(
        f"{fault:7} on {victim}, clock of {wrong} {seconds:+d} s: "
        f"{'right' if is_right else 'WRONG'}  {document['headline'][:150]}",
        flush=True,
    )
    return {
        "is_right": is_right,
        "is_ordered": is_ordered,
        "by_wall": None if fault == "absent" else by_wall,
        "spreads": [n["offset_uncertainty_seconds"] or 0.0 for n in nodes],
    }


def job(
    folder: Path, fault: str, victim: str, wrong: str, seconds: int, step: int
) -> dict[str, Any]:
    library = folder / "wrong_clock.so"
    source = str(PROGRAMS / "wrong_clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), source], check=True)
    rerail = [sys.executable, "-m", "rerail"]
    with Hosts(*NAMES) as hosts:
        ranks = {}
        for rank, name in enumerate(NAMES):
            if fault == "absent" and name == victim:
                continue
            environ = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": hosts.address("a"),
                "MASTER_PORT": "29500",
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
                "RERAIL_JOB_BEAT": "0.5",
                "SLURM_NODEID": str(rank),
            }
            if name == wrong:
                environ |= {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(seconds)}
            command = [*rerail, "run", "--home", str(folder / name), "--job", "j", "--nnodes", "3"]
            command += ["--job-dir", str(folder / "shared"), "--no-explain", "--", sys.executable]
            command += [str(PROGRAMS / "job_trains.py"), "--steps", "4000", "--out", str(folder)]
            if fault in ("raise", "kill", "exit0", "sleep"):
                command += ["--at", str(step), "--does", fault, "--only", str(NAMES.index(victim))]
            ranks[name] = hosts.start(name, command, environ, folder)
        if fault == "link":
            counter = folder / f"steps-{NAMES.index(victim)}"
            while not counter.is_file() or int(counter.read_text() or 0) < step:
                time.sleep(0.05)
            hosts.cut_off(victim)
        for name, rank in ranks.items():
            if fault != "sleep" or name != victim:
                rank.wait(240)
        done = subprocess.run(
            [*rerail, "explain", "--json", str(folder / "shared/j")],
            capture_output=True,
            text=True,
            timeout=120,
        )
        if os.environ.get("KEEP"):
            shutil.copytree(folder, Path(os.environ["KEEP"]) / f"{fault}-{step}", symlinks=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    sys.exit(main())
