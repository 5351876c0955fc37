"""What the census of growing memory costs: having it on, and taking one.

Having it on, without one taken: one training under the agent takes turns of ten steps, with the
look at the resident size and without it; each pair of neighbouring turns gives one ratio of their
medians, and the figure is the median of 1,000 ratios. Beside it the same with nothing switched.

Taking one: the agent's own function, in a process with 1e5 to 5e6 objects that the collector knows,
in CPU time of its thread and in memory that it takes on top.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rerail.agent import inject

OBJECTS = (100_000, 1_000_000, 5_000_000)

TRAINING = """
import json, statistics, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(32, 64)
hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
hook = next(h for h in hooks.values() if h.__module__ == "rerail_hooks_torch")
due = hook.__closure__[hook.__code__.co_freevars.index("due")].cell_contents
kept = 0

def turn():
    taken = []
    for i in range(12):
        began = time.perf_counter_ns()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i > 1:
            taken.append(time.perf_counter_ns() - began)
    return sum(taken)

def ratios(is_switched):
    global kept
    found = []
    for pair in range(1050):
        if is_switched:
            kept, due[0] = due[0], 1 << 62
        without = turn()
        if is_switched:
            due[0] = kept
        found.append(turn() / without)
    return statistics.median(found[50:])

print(json.dumps([ratios(True), ratios(False)]))
"""

TAKING = """
import json, resource, sys, time
count = int(sys.argv[1])
if count:
    import torch
kept = [[i] for i in range(count)]
census = sys.modules["rerail_imports"].hook_module("rerail_census")

def program():
    watch = census.Watch(False)
    found = []
    for step in (10, 100, 200):
        kept.extend([] for _ in range(50))
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.thread_time()
        census._take(watch, step, step << 20)
        took = time.thread_time() - began
        found.append([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - highest])
    print(json.dumps(found))

program()
"""


def answer(code: str, *arguments: str) -> list:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, *arguments]
        added = inject(Path(folder), os.environ, command, time.monotonic_ns()).variables
        environ = {**os.environ, **added}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        seen = [
            json.loads(line)["seen_share"]
            for path in Path(folder).glob("*.census")
            for line in path.read_text().splitlines()
            if "seen_share" in line
        ]
    return [json.loads(done.stdout), seen]


def main() -> None:
    rounds = [answer(TRAINING)[0] for _ in range(3)]
    on = statistics.median(each[0] for each in rounds)
    same = statistics.median(each[1] for each in rounds)
    print(f"on, none taken: {on:.4f} of a step without it (nothing switched: {same:.4f})")
    for count in OBJECTS:
        figures, seen = answer(TAKING, str(count))
        most = max(took for took, _ in figures)
        memory = max(kib for _, kib in figures) / 1024
        share = f"{min(seen):.0%} seen" if seen else "objects not listed: too many"
        print(f"one census, {count:>9,} objects: {1000 * most:.0f} ms, {memory:.0f} MiB, {share}")


if __name__ == "__main__":
    main()
