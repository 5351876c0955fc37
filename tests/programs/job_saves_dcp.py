"""Two ranks save a sharded model twice with torch.distributed.checkpoint: step-1, then step-2."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8))
fully_shard(model, mesh=mesh)
for step in (1, 2):
    state = {"model": model.state_dict(), "step": torch.tensor(step)}
    dcp.save(state, checkpoint_id=f"{sys.argv[1]}/step-{step}")
dist.destroy_process_group()
# Straight out: CPython 3.11 ends a thread that asks for the lock while the interpreter shuts down,
# and in a thread of gloo that is std::terminate, now and then, after all the work is done.
sys.stdout.flush()
os._exit(0)
