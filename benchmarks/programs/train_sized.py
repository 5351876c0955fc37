"""A training of a chosen architecture, for predicting its memory: trains, validates, saves.

    train_sized.py --model resnet --data FILE.npy [--mapped] --optimizer adamw --batch-size 32 ...

The architectures are in sized_networks.py. Each epoch goes over the data in random order,
validates, and writes a checkpoint.
"""

import argparse

import numpy as np
import torch
from sized_networks import CLASSES, NETWORKS, build
from torch.utils.data import DataLoader, Dataset, Subset


class Rows(Dataset):
    def __init__(self, path, mapped):
        self.rows = np.load(path, mmap_mode="r" if mapped else None)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.rows[index])), index % CLASSES


def make_optimizer(name, parameters, foreach):
    if name == "sgd":
        return torch.optim.SGD(parameters, 1e-3, momentum=0.9, foreach=foreach)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(parameters, 1e-3, foreach=foreach)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(NETWORKS), required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--mapped", action="store_true")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="adamw")
    parser.add_argument("--foreach", action="store_true")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--start-method", choices=["fork", "spawn"], default="fork")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    data = Rows(args.data, args.mapped)
    net = build(args.model, args.width, args.depth, data.rows[0])
    optimizer = make_optimizer(args.optimizer, net.parameters(), args.foreach or None)
    held = len(data) // 8
    train = Subset(data, range(held, len(data)))
    how = {"num_workers": args.workers}
    if args.workers:
        how["multiprocessing_context"] = args.start_method
    loader = DataLoader(train, args.batch_size, shuffle=True, **how)
    check = DataLoader(Subset(data, range(held)), args.batch_size, **how)
    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = net.loss(x, y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        net.eval()
        with torch.no_grad():
            checked = sum(net.loss(x, y).item() for x, y in check)
        print(f"epoch {epoch} loss {total:.3f} checked {checked:.3f}", flush=True)
        if args.save:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, args.save)


if __name__ == "__main__":
    main()
