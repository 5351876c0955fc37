"""One training of a small net on spirals; writes metrics.json into --out."""
import argparse
import json
import os

import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--lr", type=float, default=0.3)
ap.add_argument("--hidden", type=int, default=32)
ap.add_argument("--activation", default="tanh")
ap.add_argument("--epochs", type=int, default=300)
ap.add_argument("--cache", type=int, default=0, help="MiB of augmented points to keep")
ap.add_argument("--out", required=True)
args = ap.parse_args()

ACTIVATIONS = {"tanh": (np.tanh, lambda h: 1 - h * h), "relu": (lambda z: np.maximum(z, 0), lambda h: (h > 0) * 1.0)}


def spirals(n, rng):
    t = np.sqrt(rng.random(n)) * 6
    y = rng.integers(0, 2, n)
    x = np.stack([t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)], 1) / 6
    return x + rng.normal(scale=0.02, size=x.shape), y


def train():
    rng = np.random.default_rng(0)
    x, y = spirals(600, rng)
    act, grad = ACTIVATIONS[args.activation]
    w1, b1 = rng.normal(size=(2, args.hidden)), np.zeros(args.hidden)
    w2, b2 = rng.normal(size=(args.hidden, 1)) * 0.1, np.zeros(1)
    augmented = []
    for epoch in range(args.epochs):
        if len(augmented) < args.cache:
            augmented.append(np.repeat(x, 2**20 // x.nbytes + 1, axis=0) * rng.random())
        h = act(x @ w1 + b1)
        p = 1 / (1 + np.exp(-(h @ w2 + b2)))
        err = p - y[:, None]
        loss = -np.mean(y * np.log(p[:, 0] + 1e-9) + (1 - y) * np.log(1 - p[:, 0] + 1e-9))
        dw2, dh = h.T @ err / len(x), err @ w2.T * grad(h)
        w2 -= args.lr * dw2
        b2 -= args.lr * err.mean(0)
        w1 -= args.lr * (x.T @ dh) / len(x)
        b1 -= args.lr * dh.mean(0)
        if epoch % 50 == 0:
            print(f"  [{os.path.basename(args.out)}] epoch {epoch} loss {loss:.4f}", flush=True)
    return float(loss)


if __name__ == "__main__":
    os.makedirs(args.out, exist_ok=True)
    result = train()
    with open(os.path.join(args.out, "metrics.json"), "w") as f:
        json.dump({"loss": result, **vars(args)}, f)
