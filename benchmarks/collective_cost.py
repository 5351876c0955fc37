"""What the agent adds to one collective: prints microseconds per call, and the share of a training.

Like agent_step_cost: one process puts the hooks on for ten calls and off for ten, each pair of
neighbouring blocks gives one difference of medians, and the figure is the median of them. A group
of one gloo rank calls all_reduce: nobody else's time is in it. `deep` is the same call from below
twenty frames of a library, as in a trainer.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.agent_step_cost import run_once

ROUNDS = 3

CALLS = """
import ctypes, json, os, statistics, time, torch, torch.distributed as dist
method_of = ctypes.pythonapi.PyInstanceMethod_New  # pybind11's own kind of method
method_of.restype, method_of.argtypes = ctypes.py_object, (ctypes.py_object,)
torch.set_num_threads(1)
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
import torch._C._distributed_c10d as bindings
kept = {}
for owner, name in ((bindings.ProcessGroup, "allreduce"), (bindings.Work, "wait")):
    wrapped = vars(owner)[name]
    kept[owner, name] = wrapped, method_of(wrapped.__func__.__self__.parts[0])
clock = time.perf_counter_ns
x = torch.ones(64, 4)

def switch(on):
    for (owner, name), pair in kept.items():
        setattr(owner, name, pair[0 if on else 1])

def near():
    dist.all_reduce(x)

library = {"dist": dist, "x": x}
code = "def down(n):\\n    down(n - 1) if n else dist.all_reduce(x)"
exec(compile(code, "/lib/site-packages/trainer.py", "exec"), library)

def deep():
    library["down"](18)

figures = {}
for name, call in (("near", near), ("deep", deep)):
    taken = {True: [], False: []}
    for block in range(2600):
        on = block % 2 == 0
        switch(on)
        times = []
        for i in range(10):
            began = clock()
            call()
            ended = clock()
            if i > 2:
                times.append((ended - began) / 1e3)
        if block >= 200:
            taken[on].append(statistics.median(times))
    pairs = zip(taken[True], taken[False])
    figures[name] = [statistics.median(taken[False]), statistics.median(a - b for a, b in pairs)]
print(json.dumps(figures))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rounds = [json.loads(run_once(CALLS, Path(folder))[0]) for _ in range(ROUNDS)]
    added = {}
    for name in rounds[0]:
        bare, more = (statistics.median(found[name][i] for found in rounds) for i in (0, 1))
        added[name] = more
        print(f"added per all_reduce, {name:5} {more:6.2f} µs, to {bare:.1f} µs")
    print(json.dumps({**added, "limit_us": 2}))


if __name__ == "__main__":
    main()
