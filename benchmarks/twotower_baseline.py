"""The two-tower training as one writes it first; benchmarks/twotower_training.py compares with it.

    .venv/bin/python benchmarks/twotower_baseline.py DATA --bs 32 --accum 16 --steps 4

Reads the archives with numpy.load, batches with a DataLoader, runs nn.GRU, keeps the memory bank by
concatenation and lets autograd do the rest. Model, first weights, order, losses and schedule are
those of `twotower train --start random --miner none`. Prints JSON: loss and seconds of every step.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset[Any]):
    def __init__(self, folder: Path) -> None:
        pairs, bank = np.load(folder / "pairs.npz"), np.load(folder / "bank.npz")
        self.x, self.y = pairs["X_train"], pairs["Y_train"]
        self.target = bank["target_train"]
        self.bank = bank["vectors"]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, int]:
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i]), int(self.target[i])


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(768, 512, batch_first=True, bidirectional=True)
        self.project = nn.Linear(1024, 768)

    def forward(self, x: Tensor) -> Tensor:
        _, h = self.gru(x)
        return normalize(self.project(torch.cat([h[0], h[1]], dim=1)), dim=1)


def learning_rate(step: int, total: int) -> float:
    if step < 20:
        return 1e-3 * (step + 1) / 21
    return 1e-3 * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - 20) / max(1, total - 20))))


parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--bs", type=int, default=32)
parser.add_argument("--accum", type=int, default=16)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--filled", type=int, default=0, help="documents in the memory bank at start")
args = parser.parse_args()

torch.manual_seed(0)
pairs = Pairs(args.data)
order = np.random.default_rng([0, 0]).permutation(len(pairs)).tolist()
loader = DataLoader(pairs, batch_size=args.bs, sampler=order[: args.steps * args.bs * args.accum])
model = Tower()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
memory = torch.from_numpy(pairs.bank[: args.filled])
memory_ids = torch.arange(args.filled)

losses, seconds, cpu_seconds = [], [], []
total_loss, wall, cpu = 0.0, time.perf_counter(), time.process_time()
for batch, (x, y, ids) in enumerate(loader):
    q = model(x)
    documents, document_ids = torch.cat([y, memory]), torch.cat([ids, memory_ids])
    logits = q @ documents.T / 0.05
    is_copy = document_ids[None, :] == ids[:, None]
    is_copy[torch.arange(len(ids)), torch.arange(len(ids))] = False
    logits = logits.masked_fill(is_copy, -1e4)
    loss = cross_entropy(logits, torch.arange(len(ids))) / args.accum
    loss.backward()
    total_loss += loss.item()
    memory = torch.cat([memory, y])[-50_000:]
    memory_ids = torch.cat([memory_ids, ids])[-50_000:]
    if (batch + 1) % args.accum == 0:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(len(losses), args.steps)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total_loss)
        seconds.append(time.perf_counter() - wall)
        cpu_seconds.append(time.process_time() - cpu)
        total_loss, wall, cpu = 0.0, time.perf_counter(), time.process_time()
print(json.dumps({"losses": losses, "seconds": seconds, "cpu_seconds": cpu_seconds}))
