"""One rank of a small data-parallel training over gloo: reduces its gradients in every step.

Environment as a launcher sets it (env://). --at STEP --does raise|exit0|sleep|kill makes this rank
fail there; --only RANK says which. A file `steps-RANK` below --out has the last step.
"""

import argparse
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=60)
arguments.add_argument("--pause", type=float, default=0.05)
arguments.add_argument("--timeout", type=float, default=8.0)
arguments.add_argument("--at", type=int, default=-1)
arguments.add_argument("--does", default="raise")
arguments.add_argument("--only", type=int, default=1)
arguments.add_argument("--out", default=None)
asked = arguments.parse_args()

dist.init_process_group("gloo", timeout=timedelta(seconds=asked.timeout))
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, asked.steps + 1):
    if step == asked.at and rank == asked.only:
        if asked.does == "raise":
            raise ValueError(f"rank {rank} has a bad batch at step {step}")
        if asked.does == "exit0":
            os._exit(0)
        if asked.does == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
    optimizer.zero_grad()
    loss = model(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if asked.out:
        with open(os.path.join(asked.out, f"steps-{rank}"), "w") as file:
            file.write(str(step))
    time.sleep(asked.pause)
dist.destroy_process_group()
# Straight out: CPython 3.11 ends a thread that asks for the lock while the interpreter shuts down,
# and in a thread of gloo that is std::terminate, now and then, after all the work is done.
sys.stdout.flush()
os._exit(0)
