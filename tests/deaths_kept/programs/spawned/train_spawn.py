"""Train a click model on two processes of one machine: torch.multiprocessing.spawn and gloo.

Each rank reads a shard of its own; gradients are averaged in one flat all-reduce.
"""

import argparse
import datetime as dt
import json
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def build_model(width):
    return nn.Sequential(
        nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
    )


def load_shard(folder, rank):
    path = os.path.join(folder, f"part-{rank}.npz")
    with np.load(path) as shard:
        x = shard["features"].astype(np.float64)
        y = shard["target"]
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def average_gradients(model, world_size):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= world_size
    offset = 0
    for g in grads:
        g.copy_(flat[offset : offset + g.numel()].view_as(g))
        offset += g.numel()


def log(**fields):
    fields["time"] = dt.datetime.now().isoformat(timespec="seconds")
    print(json.dumps(fields), flush=True)


def run_rank(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{args.port}",
        rank=rank,
        world_size=args.world_size,
        timeout=dt.timedelta(seconds=args.timeout),
    )
    x, y = load_shard(args.shards, rank)
    model = build_model(x.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    global_step = 0
    for epoch in range(args.epochs):
        for start in range(0, len(x), args.batch_size):
            xb, yb = x[start : start + args.batch_size], y[start : start + args.batch_size]
            loss = criterion(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model, args.world_size)
            optimizer.step()
            global_step += 1
            time.sleep(args.pause)
            if rank == 0 and global_step % 10 == 0:
                log(event="train", epoch=epoch, step=global_step, loss=round(loss.item(), 4))
        if rank == 0:
            torch.save(model.state_dict(), args.checkpoint)
            log(event="epoch_end", epoch=epoch, step=global_step)
    dist.destroy_process_group()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", default="shards")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--port", type=int, default=29411)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.02, help="throttle, for shared machines")
    parser.add_argument("--checkpoint", default="model.pt")
    args = parser.parse_args(argv)
    mp.spawn(run_rank, args=(args,), nprocs=args.world_size)
    log(event="done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
