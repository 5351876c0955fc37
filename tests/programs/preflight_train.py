"""A tiny training that does to files what trainings do: logs, checkpoints, a clean-up."""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--log", default="")
parser.add_argument("--save", default="")
parser.add_argument("--removes", default="")
parser.add_argument("--out", default="")
parser.add_argument("--fails-at", type=int, default=-1)


def go_through(loader, net, optimizer, log, args):
    for step, (x,) in enumerate(loader):
        if step == args.fails_at:
            raise FileNotFoundError(2, "No such file or directory", "shard-0007.npz")
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if log:
            print(step, loss.item(), file=log, flush=True)
        if args.save:
            torch.save(net.state_dict(), args.save)
        if args.removes and step == 1:
            os.remove(args.removes)


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    log = open(args.log, "w") if args.log else None
    if args.out:
        os.makedirs(args.out)
        with open(os.path.join(args.out, "settings.txt"), "w") as file:
            file.write(f"batch size {args.batch_size}")
    net = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, 1))
    optimizer = torch.optim.AdamW(net.parameters())
    data = TensorDataset(torch.randn(4096, 32))
    loader = DataLoader(data, args.batch_size, num_workers=args.workers)
    for _ in range(2):
        go_through(loader, net, optimizer, log, args)
    print("finished")


if __name__ == "__main__":
    main()
