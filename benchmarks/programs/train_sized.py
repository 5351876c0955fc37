"""A training of a chosen architecture, for predicting its memory: trains, validates, saves.

    train_sized.py --model resnet|transformer|gru --data FILE.npy [--mapped] --optimizer adamw ...

Small forms of public architectures: a residual network for pictures, a causal transformer for
tokens, a bidirectional recurrent network for vectors. Each epoch goes over the data in random
order, validates, and writes a checkpoint.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset


class Rows(Dataset):
    def __init__(self, path, mapped):
        self.rows = np.load(path, mmap_mode="r" if mapped else None)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.rows[index])), index % 10


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.side = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.body(x) + self.side(x))


class ResNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        stages = []
        for at in range(3):
            before, after = width << max(at - 1, 0), width << at
            stages += [Residual(before, after, 1 if at == 0 else 2), Residual(after, after, 1)]
        self.stages = nn.Sequential(*stages)
        self.last = nn.Linear(width << 2, 10)

    def loss(self, x, y):
        features = self.stages(self.first(x.float().div(255))).mean((2, 3))
        return functional.cross_entropy(self.last(features), y)


class Transformer(nn.Module):
    def __init__(self, width, words=8192):
        super().__init__()
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.last = nn.Linear(width, words)

    def loss(self, x, y):
        x = x.long()
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1] - 1)
        hidden = self.layers(self.words(x[:, :-1]), mask=mask, is_causal=True)
        scores = self.last(hidden)
        return functional.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten())


class Recurrent(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.layers = nn.GRU(features, width, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * width, 10)

    def loss(self, x, y):
        out, _ = self.layers(x)
        return functional.cross_entropy(self.last(out.mean(1)), y)


def build(name, width, data):
    if name == "resnet":
        return ResNet(width)
    if name == "transformer":
        return Transformer(width)
    return Recurrent(width, data.rows.shape[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["resnet", "transformer", "gru"], required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--mapped", action="store_true")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="adamw")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    data = Rows(args.data, args.mapped)
    net = build(args.model, args.width, data)
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    held = len(data) // 8
    train = Subset(data, range(held, len(data)))
    loader = DataLoader(train, args.batch_size, shuffle=True, num_workers=args.workers)
    check = DataLoader(Subset(data, range(held)), args.batch_size, num_workers=args.workers)
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
