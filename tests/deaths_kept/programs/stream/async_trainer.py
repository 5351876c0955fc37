"""Online learning from several feeds: asyncio in front, a thread pool for the steps.

Each feed is a file of records that another service appends to, or a TCP source host:port.
"""

import argparse
import asyncio
import concurrent.futures
import json
import random
import signal
import time
from pathlib import Path

import numpy as np

DIM = 64


class LogisticModel:
    def __init__(self):
        self.w = np.zeros(DIM)
        self.steps = 0

    def step(self, x, y):
        p = 1 / (1 + np.exp(-np.clip(x @ self.w, -30, 30)))
        self.w -= 0.1 * x.T @ (p - y) / len(y)
        self.steps += 1
        time.sleep(0.01)
        eps = 1e-9
        return float(-(y * np.log(p + eps) + (1 - y) * np.log(1 - p + eps)).mean())


def write_feeds(folder, feeds, rows=1600):
    folder.mkdir(exist_ok=True)
    truth = np.random.default_rng(9).normal(size=DIM)
    for n in range(feeds):
        rng = np.random.default_rng(n)
        with open(folder / f"feed{n}.jsonl", "w") as out:
            for _ in range(rows):
                x = rng.normal(size=DIM).round(3)
                out.write(json.dumps({"x": x.tolist(), "y": int(x @ truth > 0)}) + "\n")


def parse(line):
    record = json.loads(line)
    x = np.asarray(record["x"], dtype=float)
    if x.shape != (DIM,):
        raise ValueError(f"record has {x.shape[0]} features, the model takes {DIM}")
    return x, record["y"]


async def file_feed(path, queue):
    with open(path) as lines:
        for line in lines:
            await queue.put(parse(line))
            await asyncio.sleep(0)


async def tcp_feed(host, port, queue):
    reader, writer = await asyncio.open_connection(host, port)
    while line := await reader.readline():
        await queue.put(parse(line))
    writer.close()


async def checkpoint(model, path):
    await asyncio.to_thread(np.save, path, model.w)


async def trainer(model, queue, pool, args):
    loop = asyncio.get_running_loop()
    background = set()
    worst = 0
    while True:
        batch = [await queue.get() for _ in range(args.batch_size)]
        x = np.stack([b[0] for b in batch])
        y = np.array([b[1] for b in batch])
        loss = await loop.run_in_executor(pool, model.step, x, y)
        for _ in batch:
            queue.task_done()
        worst = worst + 1 if loss > args.loss_ceiling else 0
        if worst >= 5:
            raise SystemExit(3)
        if model.steps % 10 == 0:
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} it={model.steps} loss={loss:.4f}",
                  flush=True)
        if model.steps % 50 == 0:
            task = asyncio.create_task(checkpoint(model, args.checkpoint))
            background.add(task)
            task.add_done_callback(background.discard)


async def main(args):
    random.seed(0)
    model = LogisticModel()
    queue = asyncio.Queue(256)
    pool = concurrent.futures.ThreadPoolExecutor(args.threads)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def give_up():
        await stop.wait()
        np.save(args.checkpoint, model.w)
        print(f"got SIGTERM, saved {args.checkpoint} at it={model.steps}", flush=True)
        raise SystemExit(143)

    stopper = asyncio.create_task(give_up())
    learner = asyncio.create_task(trainer(model, queue, pool, args))
    async with asyncio.TaskGroup() as group:
        for path in sorted(Path(args.feeds).glob("feed*.jsonl")):
            group.create_task(file_feed(path, queue), name=path.stem)
        if args.source:
            host, port = args.source.rsplit(":", 1)
            group.create_task(tcp_feed(host, int(port), queue), name="source")
    await queue.join()
    learner.cancel()
    stopper.cancel()
    print(f"finished at it={model.steps}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--feeds", default="feeds")
    ap.add_argument("--write-feeds", type=int, default=0)
    ap.add_argument("--source", default="")
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--loss-ceiling", type=float, default=5.0)
    ap.add_argument("--checkpoint", default="online.npy")
    options = ap.parse_args()
    if options.write_feeds:
        write_feeds(Path(options.feeds), options.write_feeds)
    else:
        asyncio.run(main(options))
