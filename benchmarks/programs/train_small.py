"""A real torch training, small enough to repeat: a convolutional classifier on made-up pictures.

Prints one JSON line: steps, wall seconds and CPU seconds of the training loop (workers included),
and a digest of every loss, so that two runs can be compared to the last bit.
"""

import argparse
import hashlib
import json
import resource
import struct
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, rows):
        self.images = torch.rand(rows, 3, 24, 24, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        image = self.images[row]
        return (image - image.mean()) / image.std(), row % 10


def children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 144, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    data = Pictures(args.batch_size * (args.steps + 20))
    loader = DataLoader(data, args.batch_size, num_workers=args.workers)
    losses = hashlib.sha256()
    warm_up = 20
    for step, (x, y) in enumerate(loader):
        if step == warm_up:
            started, started_cpu = time.perf_counter(), time.process_time()
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(struct.pack("d", loss.item()))
    wall = time.perf_counter() - started
    cpu = time.process_time() - started_cpu
    del loader
    report = {"steps": args.steps, "wall": wall, "cpu": cpu + children_cpu_seconds()}
    print(json.dumps({**report, "losses": losses.hexdigest()}), flush=True)


if __name__ == "__main__":
    main()
