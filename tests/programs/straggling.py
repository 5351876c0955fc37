"""Gloo ranks that train in step; one of them may be slower, in computing or in its data.

`--excess 0.2 --victim 1 --from 100 --part data` has rank 1 need a fifth more from step 100 on, and
`--stuck 60` has it stand still for ever in `load_shard` there, while the others wait.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=3)
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--step-seconds", type=float, default=0.05)
parser.add_argument("--excess", type=float, default=0.0)
parser.add_argument("--victim", type=int, default=1)
parser.add_argument("--from", dest="first", type=int, default=100)
parser.add_argument("--part", choices=["compute", "data"], default="compute")
parser.add_argument("--stuck", type=int, default=0)
parser.add_argument("--timeout", type=float, default=60.0)
parser.add_argument("--ddp", action="store_true")


def load_shard(seconds: float) -> None:
    time.sleep(seconds)


class Rows(IterableDataset):
    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        self.rank, self.options = rank, options

    def __iter__(self) -> Iterator[torch.Tensor]:
        o = self.options
        for step in range(o.steps):
            is_slow = o.part == "data" and self.rank == o.victim and step >= o.first
            time.sleep(0.2 * o.step_seconds + (o.excess * o.step_seconds if is_slow else 0.0))
            yield torch.ones(8)


def train(rank: int, options: argparse.Namespace, port: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks))
    store = dist.TCPStore("127.0.0.1", port, options.ranks, rank == 0)
    patience = timedelta(seconds=options.timeout)
    dist.init_process_group(
        "gloo", rank=rank, world_size=options.ranks, store=store, timeout=patience
    )
    model: torch.nn.Module = torch.nn.Linear(8, 8)
    if options.ddp:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(Rows(rank, options), batch_size=None)):
        if options.stuck and rank == options.victim and step == options.stuck:
            load_shard(600.0)
        is_slow = options.part == "compute" and rank == options.victim and step >= options.first
        more = options.excess if is_slow else 0.0
        time.sleep((0.8 + more) * options.step_seconds)
        optimizer.zero_grad()
        model(batch).sum().backward()
        if not options.ddp:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, (options, port), nprocs=options.ranks)
