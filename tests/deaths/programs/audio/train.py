"""Stage 1 extracts features in processes, stage 2 trains a softmax on them in numpy.

    python make_wavs.py && python train.py --jobs 2
"""
import argparse
import json
import sys
import threading
from pathlib import Path

import numpy as np

import extract

parser = argparse.ArgumentParser(description="tone classifier")
parser.add_argument("--jobs", type=int, default=2)
parser.add_argument("--delay", type=float, default=0.0, help="pace of the extraction, seconds per file")
parser.add_argument("--queue", action="store_true", help="own queue and processes, not a pool")
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--cache", default="features.npy")
parser.add_argument("--reuse", action="store_true", help="take the features from --cache")
parser.add_argument("--deep-taxonomy", action="store_true", help="allow any nesting of classes")


def depth(node):
    return 1 + max(map(depth, node["children"]), default=0)


def load_taxonomy(path, deep):
    """Flatten the nested classes; nesting is an old format, one level per line."""
    text = Path(path).read_text()
    if not text.startswith("{"):
        root = None
        for line in reversed(text.splitlines()):
            root = {"name": line, "children": [root] if root else []}
    else:
        root = json.loads(text)
    if deep:
        sys.setrecursionlimit(10_000_000)
        box = []
        threading.stack_size(4 << 20)
        worker = threading.Thread(target=lambda: box.append(depth(root)), name="taxonomy")
        worker.start()
        worker.join()
        return box[0]
    return depth(root)


def softmax_epoch(w, b, x, y, lr):
    z = x @ w + b
    z -= z.max(1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
    p[np.arange(len(y)), y] -= 1
    w -= lr * x.T @ p / len(y)
    b -= lr * p.mean(0)
    return loss


def main():
    args = parser.parse_args()
    print("taxonomy depth", load_taxonomy("taxonomy.json", args.deep_taxonomy))
    labels = json.loads(Path("labels.json").read_text())
    paths = sorted(Path("wavs").glob("*.wav"))
    if args.reuse:
        x = np.load(args.cache, mmap_mode="r")
    else:
        run = extract.with_queue(paths, args.jobs) if args.queue else extract.with_pool(paths, args.jobs, args.delay)
        x = np.stack([run[p.stem].mean(0) for p in paths])
        np.save(args.cache, x)
    y = np.array([labels[p.stem] for p in paths])
    print(f"features {x.shape}, classes {sorted(set(y.tolist()))}")
    w, b = np.zeros((x.shape[1], 3)), np.zeros(3)
    for epoch in range(args.epochs):
        loss = softmax_epoch(w, b, np.asarray(x, dtype=np.float64), y, args.lr)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss:.4f}")
    np.savez("softmax.npz", w=w, b=b)
    print("saved softmax.npz")


if __name__ == "__main__":
    main()
