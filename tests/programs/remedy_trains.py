"""A small real training with checkpoints that dies at a step, and can go on from a checkpoint.

--dies-at N: dies in step N, unless GOOD=1 is set or it was resumed (--dies-when always|once).
--how: segv, or the folder of two libraries with an OpenMP runtime each, the second of which is
called in step N. --torn N: after step N a checkpoint is left half written.
The last line is the final loss and a digest of all weights, to the last bit.
"""

import argparse
import ctypes
import hashlib
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--every", type=int, default=5)
parser.add_argument("--dies-at", type=int, default=0)
parser.add_argument("--dies-when", choices=["always", "once"], default="once")
parser.add_argument("--how", default="segv")
parser.add_argument("--torn", type=int, default=0)
parser.add_argument("--resume")
parser.add_argument("--pause", type=float, default=0.0)
a = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
os.makedirs(a.out, exist_ok=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
begin = 0
if a.resume:
    state = torch.load(a.resume, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["step"]
    print("resumed from", a.resume, flush=True)


def call(name):
    library = ctypes.CDLL(os.path.join(a.how, name, f"lib{name}.so"))
    assert getattr(library, name)() > 0


def die():
    if a.how == "segv":
        ctypes.string_at(0)
    call("second")


if a.how != "segv":
    call("first")
for step in range(begin + 1, a.steps + 1):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(4, 8, generator=generator)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    if step == a.dies_at and not os.environ.get("GOOD") and (a.dies_when == "always" or not begin):
        die()
    optimizer.step()
    print(f"step {step}/{a.steps} loss {loss.item():.6f}", flush=True)
    time.sleep(a.pause)
    if step % a.every == 0:
        path = os.path.join(a.out, f"step-{step}.pt")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path + ".part")
        if step == a.torn:
            os.truncate(path + ".part", os.path.getsize(path + ".part") - 200)
        os.replace(path + ".part", path)
digest = hashlib.sha256()
for value in model.parameters():
    digest.update(value.detach().numpy().tobytes())
print("final", loss.item().hex(), digest.hexdigest(), flush=True)
