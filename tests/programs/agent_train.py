"""A small real training: files of several kinds, a DataLoader, accumulation, a progress bar."""

import argparse
import ctypes
import multiprocessing
import sys

import numpy
import torch
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--method", default="fork")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--fault", help="a library whose fault() a worker calls")
options = parser.parse_args()


class Rows(Dataset):
    def __init__(self, fault):
        self.fault = fault
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(160, 8, generator=generator)
        self.y = self.x.sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if self.fault and index == 50:
            ctypes.CDLL(self.fault).fault(11)
        return self.x[index], self.y[index]


def touch_files(model):
    values = numpy.arange(1000.0)
    numpy.save("x.npy", values)
    numpy.savez_compressed("x.npz", values=values)
    values.tofile("x.raw")
    assert numpy.load("x.npy", mmap_mode="r").sum() == values.sum()
    assert numpy.load("x.npz", mmap_mode="r")["values"].sum() == values.sum()
    assert numpy.memmap("x.raw", dtype=float, mode="r").sum() == values.sum()
    torch.save(model.state_dict(), "model.pt")
    model.load_state_dict(torch.load("model.pt"))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    touch_files(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    context = multiprocessing.get_context(options.method) if options.workers else None
    loader = DataLoader(
        Rows(options.fault),
        batch_size=16,
        shuffle=not options.fault,
        num_workers=options.workers,
        multiprocessing_context=context,
    )
    for epoch in range(options.epochs):
        bar = tqdm(loader, desc=f"epoch {epoch}", file=sys.stderr)
        for number, (x, y) in enumerate(bar, 1):
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            print(number, loss.item().hex())
            if number % options.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
