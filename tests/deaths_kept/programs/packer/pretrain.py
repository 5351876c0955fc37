"""Pretrain a small language model in bfloat16 on the CPU, with accumulation and gradient hooks."""

import argparse
import ctypes
import threading
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LIB = ctypes.CDLL("./libpacker.so")
LIB.pack.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
LIB.checksum.argtypes = [ctypes.c_void_p, ctypes.c_int64]


def pack(document, width):
    row = np.empty(width, dtype=np.int64)
    LIB.pack(document.ctypes.data, len(document), row.ctypes.data, width)
    return row


class ScaledNorm(torch.autograd.Function):
    """x / |x| * scale, with the backward written by hand."""

    @staticmethod
    def forward(ctx, x, scale):
        length = x.float().pow(2).sum(-1, keepdim=True).add(1e-6).sqrt()
        unit = x.float() / length
        ctx.save_for_backward(unit, length, scale)
        return (unit * scale).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        unit, length, scale = ctx.saved_tensors
        g = grad.float() * scale
        gx = (g - unit * (g * unit).sum(-1, keepdim=True)) / length
        gs = (grad.float() * unit).sum(dim=(0, 1))
        return gx.to(grad.dtype), gs


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, state=None):
        h, state = self.mix(ScaledNorm.apply(x, self.scale), state)
        return x + F.gelu(self.fc(h)), state


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, states=None):
        x = self.embed(ids)
        states = states or [None] * len(self.layers)
        new = []
        for layer, state in zip(self.layers, states, strict=True):
            x, state = layer(x, state)
            new.append(state)
        return self.head(x), new


def watch_gradients(model):
    def make(name):
        def hook(grad):
            if not torch.isfinite(grad).all():
                bad = int((~torch.isfinite(grad)).sum())
                raise RuntimeError(f"gradient of {name} has {bad} non-finite values")
            return grad

        return hook

    for name, p in model.named_parameters():
        p.register_hook(make(name))


def stream(folder, width, micro_batch):
    for path in sorted(Path(folder).glob("*.npy")):
        documents = np.load(path)
        for start in range(0, len(documents), micro_batch):
            rows = [pack(d, width) for d in documents[start : start + micro_batch]]
            yield torch.from_numpy(np.stack(rows))


def verify_shards(folder):
    for path in sorted(Path(folder).glob("*.npy")):
        ids = np.load(path)
        LIB.checksum(ids.ctypes.data, ids.size)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", default="tokens")
    p.add_argument("--vocab", type=int, default=300)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--micro-batch", type=int, default=8)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--epochs", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = LanguageModel(args.vocab, args.dim, args.depth)
    watch_gradients(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    threading.Thread(target=verify_shards, args=(args.tokens,), name="verifier").start()
    update = 0
    for epoch in range(args.epochs):
        states = None
        for micro, ids in enumerate(stream(args.tokens, args.width, args.micro_batch), start=1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits, states = model(ids[:, :-1], states)
                loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
            states = [s.detach() for s in states]
            (loss / args.accumulate).backward()
            if micro % args.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                update += 1
                if update % 2 == 0:
                    print(f"update {update:>5} | epoch {epoch} | loss {loss.item():.3f}", flush=True)
        torch.save(model.state_dict(), "lm.pt")
    print(f"trained for {update} updates")


if __name__ == "__main__":
    main()
