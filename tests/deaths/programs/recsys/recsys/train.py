"""Two towers with a dot product. `python -m recsys.train --data data --epochs 3`"""
import argparse
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from recsys.data import ClickStream, Negatives, read_index


def emit(event, **kv):
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"ts={stamp} event={event} " + " ".join(f"{k}={v}" for k, v in kv.items()), flush=True)


class Towers(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.bias = nn.Embedding(items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(-1) + self.bias(item).squeeze(-1)


def train_epoch(model, loader, negatives, opt, epoch, generator, log_every=20):
    loss_fn, seen, total = nn.BCEWithLogitsLoss(), 0, 0.0
    for step, (user, item, clicked) in enumerate(loader):
        neg_user, neg_item = negatives.draw(len(user), generator)
        logits = torch.cat([model(user, item), model(neg_user, neg_item)])
        target = torch.cat([clicked.float(), torch.zeros(len(neg_user))])
        loss = loss_fn(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen, total = seen + len(user), total + loss.item() * len(user)
        if step % log_every == 0:
            emit("step", epoch=epoch, step=step, loss=f"{loss.item():.4f}")
    return seen, total / max(seen, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data")
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--dim", type=int, default=16)
    ap.add_argument("--hash-buckets", type=int, default=0, help="at least this many rows per table")
    ap.add_argument("--min-dwell", type=int, default=0)
    ap.add_argument("--format", choices=["csv", "parquet"], default="csv")
    ap.add_argument("--pause", type=float, default=0.0, help="seconds between epochs")
    args = ap.parse_args()

    torch.manual_seed(11)
    torch.set_num_threads(1)
    index = read_index(args.data)
    emit("start", users=index["users"], items=index["items"], shards=len(index["shards"]))
    negatives = Negatives(args.data, index)
    model = Towers(max(index["users"], args.hash_buckets), max(index["items"], args.hash_buckets), args.dim)
    stream = ClickStream(args.data, index, args.min_dwell, args.format)
    loader = DataLoader(stream, batch_size=args.batch_size, num_workers=args.workers, persistent_workers=args.workers > 0)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for epoch in range(args.epochs):
        seen, loss = train_epoch(model, loader, negatives, opt, epoch, generator)
        if not seen:
            emit("error", msg=f'"no interactions left after filtering by min_dwell={args.min_dwell}"')
            sys.exit(3)
        emit("epoch", epoch=epoch, seen=seen, loss=f"{loss:.4f}")
        time.sleep(args.pause)
        torch.save({"model": model.state_dict(), "epoch": epoch}, "towers.pt")
    emit("done", checkpoint="towers.pt")


if __name__ == "__main__":
    main()
