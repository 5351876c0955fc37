"""Autoregressive load forecast with a small MLP; an asyncio prefetcher reads the days ahead of the training.

    python make_load.py && python forecast.py --epochs 6
"""
import argparse
import asyncio
import json
import logging
import random
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s:%(threadName)s:%(funcName)s: %(message)s")
log = logging.getLogger("forecast")


class Stats:
    """Running mean and spread, shared by the reader and the trainer."""

    def __init__(self):
        self.lock, self.n, self.mean, self.m2 = threading.Lock(), 0, 0.0, 0.0

    def add(self, values):
        with self.lock:
            for v in values:
                self.n += 1
                d = v - self.mean
                self.mean += d / self.n
                self.m2 += d * (v - self.mean)

    def scale(self):
        with self.lock:
            return self.mean, (self.m2 / max(self.n - 1, 1)) ** 0.5 or 1.0


class Snapshots(threading.Thread):
    """Writes the weights every second, together with the statistics."""

    def __init__(self, model, stats, guard):
        super().__init__(name="snapshots", daemon=True)
        self.model, self.stats, self.guard, self.count = model, stats, guard, 0

    def run(self):
        while True:
            time.sleep(0.05)
            with self.stats.lock:
                time.sleep(0.02)
                with self.guard:
                    torch.save({"model": self.model.state_dict(), "mean": self.stats.mean}, "snapshot.pt")
                    self.count += 1


class Evaluator(threading.Thread):
    """Scores the model on held-out days and hands the result over."""

    def __init__(self, model, days, results, key):
        super().__init__(name="evaluator")
        self.model, self.days, self.results, self.key = model, days, results, key

    def run(self):
        rows = [json.loads(line) for d in self.days for line in d.open()]
        values = np.array([r[self.key] for r in rows], dtype=np.float32)
        self.results.append(float(np.abs(np.diff(values)).mean()))


def read_day(path):
    with path.open() as f:
        return np.array([json.loads(line)["mw"] for line in f], dtype=np.float32)


async def prefetch(days, queue, stats):
    loop = asyncio.get_running_loop()
    for path in days:
        values = await loop.run_in_executor(None, read_day, path)
        stats.add(values.tolist())
        await queue.put((path.name, values))
    await queue.put(None)


def windows(values, lags):
    x = np.lib.stride_tricks.sliding_window_view(values, lags + 1)
    return torch.from_numpy(x[:, :-1].copy()), torch.from_numpy(x[:, -1:].copy())


async def train_epoch(model, opt, days, stats, lags, guard):
    queue, tail, total, n = asyncio.Queue(maxsize=4), np.empty(0, np.float32), 0.0, 0
    reader = asyncio.create_task(prefetch(days, queue, stats))
    while (item := await queue.get()) is not None:
        _, values = item
        with guard:
            mean, std = stats.scale()
            series = np.concatenate([tail, (values - mean) / std])
            tail = series[-lags:]
            if len(series) <= lags:
                continue
            x, y = windows(series, lags)
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        total, n = total + loss.item(), n + 1
    await reader
    return total / n


async def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="load")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lags", type=int, default=24)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--snapshots", action="store_true")
    p.add_argument("--score", metavar="COLUMN", help="score a column of the held-out days at the end")
    p.add_argument("--pace", type=float, default=0.0, help="seconds to wait after an epoch")
    a = p.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    days = sorted(Path(a.data).glob("day-*.jsonl"))
    train, held_out = days[:-5], days[-5:]
    model = nn.Sequential(nn.Linear(a.lags, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    stats, guard = Stats(), threading.Lock()
    log.info("%d days to train on, %d held out; retry policy: killed workers are restarted, OOM is fatal", len(train), len(held_out))
    if a.snapshots:
        Snapshots(model, stats, guard).start()
    for epoch in range(1, a.epochs + 1):
        loss = await train_epoch(model, opt, train, stats, a.lags, guard)
        log.info("epoch %d/%d mse %.4f", epoch, a.epochs, loss)
        await asyncio.sleep(a.pace)
    if a.score:
        results = []
        evaluator = Evaluator(model, held_out, results, a.score)
        evaluator.start()
        evaluator.join()
        log.info("mean change of %s on held-out days: %.3f", a.score, results[0])
    torch.save(model.state_dict(), "forecast.pt")
    log.info("saved forecast.pt")


if __name__ == "__main__":
    asyncio.run(main())
