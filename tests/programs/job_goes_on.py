"""Ranks train a sharded model, save it together every few steps, and one of them crashes once.

--resume FOLDER goes on from a checkpoint. The last line of rank 0 is the sum of all weights: the
same whether it was interrupted or not.
"""

import argparse
import ctypes
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=12)
arguments.add_argument("--every", type=int, default=3)
arguments.add_argument("--resume")
arguments.add_argument("--dies-at", type=int, default=-1)
arguments.add_argument("--out", default="ck")
asked = arguments.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first = 1
if asked.resume:
    state = {"model": model.state_dict(), "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=asked.resume)
    model.load_state_dict(state["model"])
    first = int(state["step"]) + 1
    print(f"rank {rank} goes on at step {first}", flush=True)
for step in range(first, asked.steps + 1):
    if step == asked.dies_at and rank == 1 and not os.path.exists("died"):
        open("died", "w").close()
        # As a rank does that dies while it writes: its part of the newest checkpoint is cut off.
        torn = f"{asked.out}/step-{(step - 1) // asked.every * asked.every}/__1_0.distcp"
        os.truncate(torn, os.path.getsize(torn) // 2)
        ctypes.string_at(0)
    torch.manual_seed(step * world + rank)
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    if step % asked.every == 0:
        saved = {"model": model.state_dict(), "step": torch.tensor(step)}
        dcp.save(saved, checkpoint_id=f"{asked.out}/step-{step}")
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
total = sum(each.full_tensor().double().sum() for each in model.parameters())
if rank == 0:
    print(f"weights {total.item():.12f}", flush=True)
dist.destroy_process_group()
# Straight out: CPython 3.11 ends a thread that asks for the lock while the interpreter shuts down,
# and in a thread of gloo that is std::terminate, now and then, after all the work is done.
sys.stdout.flush()
os._exit(0)
