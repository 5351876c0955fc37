"""One rank under DistributedDataParallel, the agent's hooks in for twelve steps and out for twelve.

    python rank_hooks.py STEPS

Each step is a small one, timed part by part, after five milliseconds of training another model
without any function that the agent has wrapped: as in a real step, what the hooks need has left
the caches by then. Prints a JSON document: for each part of a step the microseconds that it took
with the hooks and without.
"""

import json
import os
import sys
import time
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from train_ranks import make_model, make_switch

BLOCK_STEPS = 12
LEFT_OUT = 4  # of a block, which pay for the switch
WARM_UP_STEPS = 8 * BLOCK_STEPS
PAUSE_NS = 5_200_000  # the agent looks at losses and batches every 5 ms at most
PARTS = ("next", "forward", "backward", "optimizer")


def make_filler():
    """Trains for a moment without calling anything that is hooked."""
    model = make_model()
    parameters = list(model.parameters())
    means = [torch.zeros_like(p) for p in parameters]
    squares = [torch.zeros_like(p) for p in parameters]
    x = torch.randn(64, 256)

    def fill():
        until = time.perf_counter_ns() + PAUSE_NS
        while time.perf_counter_ns() < until:
            gradients = torch.autograd.grad(model(x).square().mean(), parameters)
            with torch.no_grad():
                for p, g, m, s in zip(parameters, gradients, means, squares, strict=True):
                    m.lerp_(g, 0.1)
                    s.mul_(0.99).addcmul_(g, g, value=0.01)
                    p.addcdiv_(m, s.sqrt().add_(1e-8), value=-1e-4)

    return fill


def batches():
    while True:
        yield from DataLoader(TensorDataset(torch.randn(8 * 20000, 4)), 8)


def main(steps):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    fill, source, clock = make_filler(), batches(), time.thread_time_ns
    switch, hooks = make_switch()
    taken = {True: [], False: []}
    for step in range(steps + WARM_UP_STEPS):
        is_on = step // BLOCK_STEPS % 2 == 0
        if step % BLOCK_STEPS == 0:
            switch(is_on)
        fill()
        times = [clock()]
        (x,) = next(source)
        times.append(clock())
        loss = model(x).square().mean()
        times.append(clock())
        loss.backward()
        times.append(clock())
        optimizer.step()
        times.append(clock())
        optimizer.zero_grad()
        if step >= WARM_UP_STEPS and step % BLOCK_STEPS >= LEFT_OUT:
            taken[is_on].append([(b - a) / 1e3 for a, b in pairwise(times)])
    print(json.dumps({"hooks": hooks, "parts": PARTS, "in": taken[True], "out": taken[False]}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
