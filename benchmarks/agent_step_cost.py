"""What the agent adds to one optimizer step and to a start: prints microseconds and milliseconds.

Two processes differ by more than the figure, and so do two seconds of one process. So a single
training puts the agent's hooks on for ten steps and off for ten; each pair of neighbouring blocks
gives one difference of their medians, and the figure is the median of 1,200 differences. The first
steps after a switch are left out: they pay for the switch.
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

ROUNDS = 3
STARTS = 15

TRAINING = """
import json, statistics, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 4), torch.randn(8, 1)
module = sys.modules["torch.optim.optimizer"]
places = [module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks]
hooks = [dict(place) for place in places]
backward = torch.autograd.backward, torch.autograd.backward.__self__.parts[0]
iterator = torch.utils.data.dataloader._BaseDataLoaderIter
wrapped_next = vars(iterator)["__next__"]
following = wrapped_next, wrapped_next.__self__.parts[0]
loader = DataLoader(TensorDataset(x.repeat(100000, 1), y.repeat(100000, 1)), batch_size=8)
clock = time.perf_counter_ns

def switch(on):
    torch.autograd.backward = backward[0 if on else 1]
    iterator.__next__ = following[0 if on else 1]
    for place, kept in zip(places, hooks):
        place.clear()
        if on: place.update(kept)

blocks = {"step": {True: [], False: []}, "batch": {True: [], False: []}}
batches = iter(loader)
for block in range(2600):
    on = block % 2 == 0
    switch(on)
    steps, loads = [], []
    for i in range(10):
        began = clock()
        next(batches)
        loaded = clock()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ended = clock()
        if i > 2:
            loads.append((loaded - began) / 1e3)
            steps.append((ended - loaded) / 1e3)
    if block >= 200:
        blocks["step"][on].append(statistics.median(steps))
        blocks["batch"][on].append(statistics.median(loads))
figures = {}
for name, taken in blocks.items():
    figures[name] = [
        statistics.median(taken[False]),
        statistics.median(on - off for on, off in zip(taken[True], taken[False])),
    ]
print(json.dumps(figures))
"""


def run_once(code: str | list[str], agent_dir: Path | None) -> tuple[str, float]:
    """What `code`, or a program with its arguments, printed, and how long its process took."""
    environ = dict(os.environ)
    command = [sys.executable, *(["-c", code] if isinstance(code, str) else code)]
    if agent_dir is not None:
        from rerail.agent import inject

        environ |= inject(agent_dir, environ, command, time.monotonic_ns()).variables
    began = time.perf_counter()
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return done.stdout, time.perf_counter() - began


def main() -> None:
    bare_start, agent_start, rounds = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        agent_dir = Path(folder)
        for _ in range(ROUNDS):
            rounds.append(json.loads(run_once(TRAINING, agent_dir)[0]))
        for _ in range(STARTS):
            bare_start.append(run_once("pass", None)[1])
            agent_start.append(run_once("pass", agent_dir)[1])
    added = {}
    for name in ("step", "batch"):
        bare, more = (statistics.median(round[name][i] for round in rounds) for i in (0, 1))
        added[name] = more
        print(f"added per {name:5} {more:6.2f} µs, to {bare:.1f} µs")
    start = (statistics.median(agent_start) - statistics.median(bare_start)) * 1e3
    print(f"added to Python's start   {start:6.2f} ms")
    print(json.dumps({**added, "start_ms": start, "limit_step_us": 5}))


if __name__ == "__main__":
    main()
