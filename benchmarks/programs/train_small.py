"""A real torch training, small enough to repeat: a convolutional classifier on made-up pictures.

Runs in turns: before every block of steps it waits for a line on standard input, `on` or `off`,
and after it writes one JSON line with the wall seconds of the block to `--answers`. In a turn that
is `off` the agent's hooks, if it is there, are taken out. After one more line it writes a digest of
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


def make_switch():
    """A function that puts the agent's hooks on torch in or out; one that does nothing without."""
    backward = torch.autograd.backward
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    following = vars(iterator)["__next__"]
    if not hasattr(getattr(backward, "__self__", None), "parts"):
        return lambda is_on: None
    module = sys.modules["torch.optim.optimizer"]
    places = [module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks]
    hooks = [dict(place) for place in places]

    def switch(is_on):
        torch.autograd.backward = backward if is_on else backward.__self__.parts[0]
        iterator.__next__ = following if is_on else following.__self__.parts[0]
        for place, kept in zip(places, hooks, strict=True):
            place.clear()
            if is_on:
                place.update(kept)

    return switch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=argparse.FileType("w"), default=sys.stdout)
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
    switch = make_switch()
    for _ in range(args.blocks):
        switch(sys.stdin.readline() != "off\n")
        started = time.perf_counter()
        for _ in range(args.block_steps):
            x, y = next(batches)
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.update(struct.pack("d", loss.item()))
        tell(args.answers, {"pid": os.getpid(), "wall": time.perf_counter() - started})
    sys.stdin.readline()
    tell(args.answers, {"losses": losses.hexdigest()})


def tell(file, line):
    print(json.dumps(line), file=file, flush=True)


if __name__ == "__main__":
    main()
