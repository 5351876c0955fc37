"""What watching a tree of 40 processes costs: the share of one core, at ten rows a second.

    python benchmarks/vitals_cost.py [--processes 40] [--seconds 30]

A fifth of the processes works (allocates, frees, burns CPU for a moment), the rest waits, each
with three threads: a training with loader workers. The sampler, the log and the kernel watch run
as the recorder runs them. The loop that only sleeps is measured as well and taken off.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.kernel import account as kernel
from rerail.recorder.vitals.sampler import Sampler, VitalsLog

CHILD = """
import sys, threading, time
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
works = sys.argv[1] == "works"
print("ready", flush=True)
held = []
while True:
    if works:
        held.append(bytearray(1 << 20))
        if len(held) > 50:
            held.clear()
    time.sleep(0.05 if works else 3600)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, "works" if number % 5 == 0 else "waits"],
            stdout=subprocess.PIPE,
        )
        for number in range(options.processes)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        idle, busy, size = measure(children, options.seconds)
    finally:
        for child in children:
            child.kill()
            child.wait()
    print(f"idle loop  {idle:.3f} % of a core")
    print(f"watching   {busy:.3f} % of a core, {options.processes} processes at 10 Hz")
    print(f"the cost   {busy - idle:.3f} % of a core")
    print(f"on disk    {size / 1024:.0f} KiB after {options.seconds:.0f} s")
    print(f"memory     {own_rss_bytes() / 2**20:.1f} MiB resident, interpreter included")


def measure(children: list[subprocess.Popen[bytes]], seconds: float) -> tuple[float, float, int]:
    """CPU in per cent of a core without and with the work, and the bytes written."""
    processes = [(child.pid, read_start_ticks(child.pid) or 0) for child in children]
    with tempfile.TemporaryDirectory() as folder:
        watch = kernel.begin()
        sampler, log = Sampler(Path(folder), Path.cwd()), VitalsLog(Path(folder))
        for pid, _ in processes:
            watch.note_process(pid)
        begin = time.monotonic()

        def look() -> None:
            log.add(sampler.sample(time.monotonic() - begin, processes))
            watch.poll()

        share_of_a_core(look, 2.0)  # the first rows open everything
        idle = share_of_a_core(lambda: None, seconds / 3)
        busy = share_of_a_core(look, seconds)
        log.close()
        sampler.close()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return idle, busy, size


def share_of_a_core(work: Callable[[], None], seconds: float) -> float:
    # CPU time of the whole process: asking the clock around each part costs more than the parts.
    cpu, begin = time.process_time(), time.monotonic()
    while time.monotonic() - begin < seconds:
        work()
        time.sleep(0.1)
    return (time.process_time() - cpu) / (time.monotonic() - begin) * 100


def own_rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
