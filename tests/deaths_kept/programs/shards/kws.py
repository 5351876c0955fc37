"""Keyword spotting from tar shards, with reader threads that stay ahead of the model."""

import argparse
import json
import queue
import tarfile
import threading

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from tqdm import tqdm

_END = object()


class ReadStats:
    """What was read so far, for the progress bar. Two locks: counters and names."""

    def __init__(self):
        self.count_lock = threading.Lock()
        self.name_lock = threading.Lock()
        self.clips = 0
        self.current = {}

    def add(self, reader, shard):
        with self.count_lock:
            self.clips += 1
            with self.name_lock:
                self.current[reader] = shard

    def line(self):
        with self.count_lock:
            with self.name_lock:
                return f"{self.clips} clips, {len(self.current)} readers"


class TarShards(IterableDataset):
    def __init__(self, urls, readers=2, depth=64, stats=None):
        self.urls, self.readers, self.depth, self.stats = urls, readers, depth, stats

    def read_shard(self, path):
        with tarfile.open(path) as tar:
            clip = {}
            for member in tar:
                key, ext = member.name.rsplit(".", 1)
                payload = tar.extractfile(member).read()
                clip[ext] = payload
                if len(clip) == 2:
                    meta = json.loads(clip["json"])
                    wave = np.frombuffer(clip["f32"], dtype=np.float32)
                    yield torch.from_numpy(wave.copy()), meta["label"]
                    clip = {}

    def fill(self, reader, paths, out):
        try:
            for path in paths:
                for sample in self.read_shard(path):
                    if self.stats is not None:
                        self.stats.add(reader, path)
                    out.put(sample)
        except Exception as err:
            out.put(err)
        out.put(_END)

    def __iter__(self):
        info = get_worker_info()
        urls = self.urls if info is None else self.urls[info.id :: info.num_workers]
        out = queue.Queue(self.depth)
        for r in range(self.readers):
            threading.Thread(
                target=self.fill, args=(r, urls[r :: self.readers], out),
                name=f"reader-{r}", daemon=True,
            ).start()
        running = self.readers
        while running:
            item = out.get()
            if item is _END:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield item


class KeywordNet(nn.Module):
    def __init__(self, classes=4, width=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 64, stride=16), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 8, stride=4), nn.BatchNorm1d(width), nn.ReLU(),
        )
        self.head = nn.Linear(width, classes)

    def forward(self, wave):
        return self.head(self.features(wave.unsqueeze(1)).mean(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shards", default="shards/clips-{:04d}.tar")
    ap.add_argument("--n-shards", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--workers", type=int, default=0)
    ap.add_argument("--readers", type=int, default=2)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    urls = [args.shards.format(n) for n in range(args.n_shards)]
    stats = ReadStats() if args.workers == 0 else None
    dataset = TarShards(urls, args.readers, stats=stats)
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.workers)
    model = KeywordNet()
    optim = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        right = total = 0
        bar = tqdm(loader, desc=f"epoch {epoch}", total=args.n_shards * 160 // args.batch_size)
        for wave, label in bar:
            logits = model(wave)
            loss = nn.functional.cross_entropy(logits, label)
            optim.zero_grad()
            loss.backward()
            optim.step()
            right += (logits.argmax(-1) == label).sum().item()
            total += len(label)
            bar.set_postfix(loss=f"{loss.item():.3f}", read=stats.line() if stats else "-")
        print(f"epoch {epoch}: accuracy {right / total:.3f}", flush=True)


if __name__ == "__main__":
    main()
