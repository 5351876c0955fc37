"""What the recorder itself costs: CPU and memory with 40 processes, and start-up of `true`.

CPU is user + system time of everything of rerail's own (recorder, guardian, canary), from the
kernel's counters, over wall time; memory is their proportional set size (pages that they share
count once) and the largest resident set. Start-up is the difference between `rerail run -- true`
and `true`, alternated, median; the CPU time of the same beside it, since wall time is noisy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RERAIL = [sys.executable, "-c", "import sys; from rerail.cli import main; sys.exit(main())"]
FAMILY = Path(__file__).parent / "programs" / "many_processes.py"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CPU_LIMIT, MEMORY_LIMIT_BYTES, START_LIMIT_SECONDS = 0.01, 60_000_000, 0.250


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def memory_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def own_processes(recorder: int) -> list[int]:
    """The recorder and its own helpers, told by their names."""
    children = Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()
    names = {child: Path(f"/proc/{child}/comm").read_text().strip() for child in children}
    return [recorder, *(int(pid) for pid, name in names.items() if name.startswith("rerail-"))]


def steady_state(processes: int, seconds: float, options: list[str]) -> dict[str, float]:
    home = Path(tempfile.mkdtemp(prefix="rerail-cost-"))
    family = [sys.executable, str(FAMILY), str(processes)]
    recorder = subprocess.Popen(
        [*RERAIL, "run", "--home", str(home), "--no-explain", *options, "--", *family],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"up\n"
        time.sleep(5)  # start-up is measured below; here only what goes on
        own = own_processes(recorder.pid)
        began, used_before = time.monotonic(), sum(map(cpu_seconds, own))
        time.sleep(seconds)
        used, wall = sum(map(cpu_seconds, own)) - used_before, time.monotonic() - began
        memory = sum(memory_bytes(pid, "Pss") for pid in own)
        resident = max(memory_bytes(pid, "Rss") for pid in own)
        recorder.communicate(b"\n", timeout=60)
        (run,) = (home / "runs").iterdir()
        rows = (run / "vitals.recent.jsonl").read_text().splitlines()[1:]
        times = [json.loads(row)["t"] for row in rows]
        pace = statistics.median(b - a for a, b in itertools.pairwise(times))
        size = sum(path.stat().st_size for path in run.glob("vitals.jsonl"))
        return {
            "cpu_share": used / wall,
            "pss_bytes": memory,
            "largest_rss_bytes": resident,
            "seconds_between_samples": pace,
            "vitals_bytes_per_hour": size / (wall + 5) * 3600,
        }
    finally:
        recorder.kill()
        recorder.wait()
        shutil.rmtree(home, ignore_errors=True)


def start_up(pairs: int) -> dict[str, float]:
    home = Path(tempfile.mkdtemp(prefix="rerail-cost-"))
    added_wall, added_cpu = [], []
    try:
        for _ in range(pairs):
            bare_wall, bare_cpu = timed(["true"])
            wall, cpu = timed([*RERAIL, "run", "--home", str(home), "--", "true"])
            added_wall.append(wall - bare_wall)
            added_cpu.append(cpu - bare_cpu)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "added_seconds_median": statistics.median(added_wall),
        "added_seconds_best": min(added_wall),
        "added_cpu_seconds_median": statistics.median(added_cpu),
    }


def timed(command: list[str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--no-agent", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    steady = steady_state(asked.processes, asked.seconds, ["--no-agent"] if asked.no_agent else [])
    start = start_up(asked.pairs)
    load = os.getloadavg()[0]
    if asked.json:
        print(json.dumps({**steady, **start, "load_1m": load}))
        return 0
    print(f"with {asked.processes} processes for {asked.seconds:.0f} s, load {load:.1f}:")
    print(f"  CPU              {steady['cpu_share']:.2%} of one core   (limit {CPU_LIMIT:.0%})")
    print(f"  memory           {steady['pss_bytes'] / 1e6:.1f} MB proportional, largest process")
    print(f"                   {steady['largest_rss_bytes'] / 1e6:.1f} MB resident (limit 60 MB)")
    print(f"  between samples  {steady['seconds_between_samples'] * 1000:.0f} ms")
    print(f"  vitals           {steady['vitals_bytes_per_hour'] / 1e6:.2f} MB per hour")
    print("added to `true`:")
    print(f"  wall             {start['added_seconds_median'] * 1000:.0f} ms (limit 250 ms), best")
    print(f"                   {start['added_seconds_best'] * 1000:.0f} ms")
    print(f"  CPU              {start['added_cpu_seconds_median'] * 1000:.0f} ms")
    is_good = steady["cpu_share"] < CPU_LIMIT and steady["pss_bytes"] < MEMORY_LIMIT_BYTES
    return 0 if is_good and start["added_seconds_median"] < START_LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
