"""What two `rerail watch` cost the run that they look at, and themselves.

    python -m benchmarks watch_cost [--pairs 40] [--seconds 3]

One program trains under `rerail run`, two terminals of 80 × 24 show it. The two are stopped
(SIGSTOP) and let go on by turns, in random order within each pair; the program notes its own CPU
time and steps. The cost is the CPU time of a step while they look over that while they do not, in
the same run: the median over the pairs, with a bootstrap interval. The same is done with nothing
switched, which says what the method can see. What the two use themselves is their own CPU time
while they look, of one core. Whoever goes on draws its whole screen once, so short stretches
overstate both.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from bisect import bisect_left
from fcntl import ioctl
from pathlib import Path

BAR_RUN = 1.005
BAR_OWN = 0.05
SETTLE_SECONDS = 8.0  # until both have drawn and the run is out of its start-up

PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x, y = torch.randn(64, 64), torch.randn(64, 1)
until, step = time.monotonic() + float(sys.argv[2]), 0
with open(sys.argv[1], "w", buffering=1) as log:
    while time.monotonic() < until:
        for _ in range(50):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        step += 50
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        log.write(f"{time.monotonic()} {time.process_time()} {step}\\n")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each stretch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        is_met = measure(Path(folder), options.pairs, options.seconds)
    return 0 if is_met else 1


def measure(folder: Path, pairs: int, seconds: float) -> bool:
    log = folder / "log"
    length = SETTLE_SECONDS * 2 + 4 * pairs * seconds
    home = str(folder / "store")
    rerail = [sys.executable, "-m", "rerail"]
    run = subprocess.Popen(
        [
            *(*rerail, "run", "--quiet", "--home", home, "--"),
            *(sys.executable, "-c", PROGRAM, str(log), str(length)),
        ],
        stdout=subprocess.DEVNULL,
    )
    watchers: list[int] = []
    try:
        while not log.exists():
            time.sleep(0.05)
        watchers = [start_in_terminal([*rerail, "watch", "--home", home, "last"]) for _ in "12"]
        time.sleep(SETTLE_SECONDS)
        looking, own_share = alternate(watchers, pairs, seconds)
        nothing, _ = alternate([], pairs, seconds)
    finally:
        for pid in watchers:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        run.terminate()
        run.wait()
    notes = [tuple(map(float, line.split())) for line in log.read_text().splitlines()[:-1]]
    cost = ratios(notes, looking)
    print(f"CPU of a step, two watchers over none: {in_words(cost)} (bar {BAR_RUN})")
    print(f"the same with nothing switched:        {in_words(ratios(notes, nothing))}")
    print(f"each watcher itself: {own_share:.2%} of a core (bar {BAR_OWN:.0%})")
    return statistics.median(cost) <= BAR_RUN and own_share <= BAR_OWN


Stretches = list[tuple[tuple[float, float], tuple[float, float]]]  # on, off: begin and end


def alternate(pids: list[int], pairs: int, seconds: float) -> tuple[Stretches, float]:
    found: Stretches = []
    spent, looked = 0.0, 0.0
    for _ in range(pairs):
        stretch: dict[bool, tuple[float, float]] = {}
        for is_on in random.sample([True, False], 2):
            for pid in pids:
                os.kill(pid, signal.SIGCONT if is_on else signal.SIGSTOP)
            before, begin = sum(map(cpu_seconds, pids)), time.monotonic()
            time.sleep(seconds)
            stretch[is_on] = (begin, time.monotonic())
            if is_on:
                spent += sum(map(cpu_seconds, pids)) - before
                looked += seconds
        found.append((stretch[True], stretch[False]))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # out of the way of what is measured next
    return found, spent / looked / max(1, len(pids))


def ratios(notes: list[tuple[float, ...]], stretches: Stretches) -> list[float]:
    times = [note[0] for note in notes]

    def cost(begin: float, end: float) -> float:
        first, last = notes[bisect_left(times, begin)], notes[bisect_left(times, end) - 1]
        return (last[1] - first[1]) / (last[2] - first[2])

    return [cost(*on) / cost(*off) for on, off in stretches]


def in_words(values: list[float]) -> str:
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):.4f} [{medians[50]:.4f}, {medians[-51]:.4f}]"


def start_in_terminal(command: list[str]) -> int:
    pid, master = pty.fork()
    if pid == 0:
        ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execv(command[0], command)
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    return pid


def drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:
        pass


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
