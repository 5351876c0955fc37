"""A real torch training, small enough to repeat: a convolutional classifier on made-up pictures.

Runs in turns: before every block of steps it waits for a line on standard input, and after it
prints one JSON line with the wall seconds of the block. After one more line it prints a digest of
every loss, so that two runs can be compared to the last bit.
"""

import argparse
import hashlib
import json
import os
import struct
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, pictures, rows):
        self.images = torch.rand(pictures, 3, 24, 24, generator=torch.Generator().manual_seed(0))
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, row):
        image = self.images[row % len(self.images)]
        return (image - image.mean()) / image.std(), row % 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--block-steps", type=int, default=40)
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
    steps = args.blocks * args.block_steps
    data = Pictures(args.batch_size * 64, args.batch_size * steps)
    batches = iter(DataLoader(data, args.batch_size, num_workers=args.workers))
    losses = hashlib.sha256()
    for _ in range(args.blocks):
        sys.stdin.readline()
        started = time.perf_counter()
        for _ in range(args.block_steps):
            x, y = next(batches)
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.update(struct.pack("d", loss.item()))
        tell({"pid": os.getpid(), "wall": time.perf_counter() - started})
    sys.stdin.readline()
    tell({"losses": losses.hexdigest()})


def tell(line):
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
