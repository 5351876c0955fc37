"""A small real training with checkpoints in a folder, and a way to die that a checkpoint may carry.

--dies-at N: dies in step N of the whole training, also when it was resumed. --dies-after N: dies
when this process has done N steps, as something that builds up does. --dies-one-in N: dies in every
step with the chance 1/N, drawn anew in every process. --safe lives with any of these.
--sharded: a checkpoint is a folder of two files. --auto: goes on from the newest checkpoint in
--out by itself, without being told which. After each step a line is added to the log in --out.
"""

import argparse
import ctypes
import os
import random
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--every", type=int, default=10)
parser.add_argument("--dies-at", type=int, default=0)
parser.add_argument("--dies-after", type=int, default=0)
parser.add_argument("--dies-one-in", type=float, default=0.0)
parser.add_argument("--colour", default="red")
parser.add_argument("--safe", action="store_true")
parser.add_argument("--sharded", action="store_true")
parser.add_argument("--auto", action="store_true")
parser.add_argument("--resume")
parser.add_argument("--pause", type=float, default=0.0)
a = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
os.makedirs(a.out, exist_ok=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
begin = 0
if a.auto and not a.resume:
    steps = [int(name[5:-3]) for name in os.listdir(a.out) if name.startswith("step-")]
    a.resume = os.path.join(a.out, f"step-{max(steps)}.pt") if steps else None
if a.resume:
    folder = a.resume if a.sharded else os.path.dirname(a.resume)
    state = torch.load(
        os.path.join(folder, "model.pt") if a.sharded else a.resume, weights_only=True
    )
    model.load_state_dict(state["model"])
    if a.sharded:
        state.update(torch.load(os.path.join(folder, "optimizer.pt"), weights_only=True))
    optimizer.load_state_dict(state["optimizer"])
    begin = state["step"]
    print("resumed from", a.resume, flush=True)
    # As a trainer that keeps book in its checkpoint: this must never reach the user's own.
    with open(os.path.join(folder, "resumed.txt"), "a") as file:
        file.write(f"from step {begin}\n")


def save(step):
    path = os.path.join(a.out, f"step-{step}" if a.sharded else f"step-{step}.pt")
    weights = {"model": model.state_dict(), "step": step}
    moments = {"optimizer": optimizer.state_dict()}
    if a.sharded:
        os.makedirs(path, exist_ok=True)
        torch.save(weights, os.path.join(path, "model.pt"))
        torch.save(moments, os.path.join(path, "optimizer.pt"))
    else:
        torch.save({**weights, **moments}, path + ".part")
        os.replace(path + ".part", path)


chance = random.SystemRandom()
for step in range(begin + 1, a.steps + 1):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(4, 8, generator=generator)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    dies = step == a.dies_at or step - begin == a.dies_after
    dies = dies or (a.dies_one_in > 0.0 and chance.random() * a.dies_one_in < 1.0)
    if dies and not a.safe:
        ctypes.string_at(0)
    optimizer.step()
    with open(os.path.join(a.out, "log.txt"), "a") as file:
        file.write(f"step {step} loss {loss.item():.6f}\n")
    time.sleep(a.pause)
    if step % a.every == 0:
        save(step)
