"""Plain torch with DistributedDataParallel, for torchrun."""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(15)
inputs = torch.randn(64, 8)
targets = inputs @ torch.randn(8, 1)
shard = slice(32 * rank, 32 * rank + 32)
labels = dict.fromkeys(range(60), "train")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    if arguments.fault == "key" and step == 12:
        names = [labels[row] for row in range(64)[shard]]  # dies: key
    if arguments.fault == "segfault" and step == 12 and rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)  # dies: segfault
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[shard]), targets[shard])
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 10 == 9:
        print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
if rank == 0:
    print("ended at", repr(loss.item()))
dist.destroy_process_group()
