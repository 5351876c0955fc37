"""Evolution strategies for a pole-balancing controller: numpy and multiprocessing.Pool, no torch."""

import argparse
import os
import time
from functools import partial
from multiprocessing import Pool

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

OBS, HIDDEN, ACT = 4, 24, 1
N_PARAMS = OBS * HIDDEN + HIDDEN + HIDDEN * ACT + ACT


def unpack(theta):
    a = OBS * HIDDEN
    b = a + HIDDEN
    c = b + HIDDEN * ACT
    return theta[:a].reshape(OBS, HIDDEN), theta[a:b], theta[b:c].reshape(HIDDEN, ACT), theta[c:]


def act(theta, obs):
    w1, b1, w2, b2 = unpack(theta)
    h = np.tanh(obs @ w1 + b1)
    return 2.0 / (1.0 + np.exp(-(h @ w2 + b2))) - 1.0


def simulate(theta, seed, horizon=120):
    """Return how long the pole stayed up, in a small cart-pole of our own."""
    rng = np.random.default_rng(seed)
    x, v, th, om = rng.uniform(-0.05, 0.05, 4)
    for t in range(horizon):
        force = 10.0 * float(act(theta, np.array([x, v, th, om]))[0])
        acc = (force + 0.05 * om * om * np.sin(th)) / 1.1
        alpha = (9.8 * np.sin(th) - np.cos(th) * acc) / 0.65
        x, v = x + 0.02 * v, v + 0.02 * acc
        th, om = th + 0.02 * om, om + 0.02 * alpha
        if abs(th) > 0.21 or abs(x) > 2.4:
            return t
    return horizon


def evaluate(job, episodes):
    theta, seed = job
    return float(np.mean([simulate(theta, seed + e) for e in range(episodes)]))


def ranks(values):
    order = np.empty(len(values))
    order[np.argsort(values)] = np.arange(len(values))
    return order / (len(values) - 1) - 0.5


class EvolutionStrategy:
    def __init__(self, size, sigma, lr, seed):
        self.rng = np.random.default_rng(seed)
        self.theta = self.rng.normal(scale=0.1, size=N_PARAMS)
        self.size, self.sigma, self.lr = size, sigma, lr
        self.archive = []

    def ask(self):
        self.noise = self.rng.normal(size=(self.size, N_PARAMS))
        return self.theta + self.sigma * self.noise

    def tell(self, rewards):
        step = self.noise.T @ ranks(rewards) / (self.size * self.sigma)
        self.theta = self.theta + self.lr * step
        self.archive.append((self.theta.copy(), rewards.copy()))

    def save(self, path):
        thetas = np.stack([t for t, _ in self.archive])
        rewards = np.stack([r for _, r in self.archive])
        np.savez(path, theta=self.theta, history=thetas, rewards=rewards)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--generations", type=int, default=40)
    p.add_argument("--population", type=int, default=48)
    p.add_argument("--episodes", type=int, default=4)
    p.add_argument("--sigma", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=0.3)
    p.add_argument("--procs", type=int, default=2)
    p.add_argument("--out", default="es.npz")
    args = p.parse_args()

    np.seterr(over="raise", invalid="raise")
    es = EvolutionStrategy(args.population, args.sigma, args.lr, seed=1)
    fitness = partial(evaluate, episodes=args.episodes)
    started = time.time()
    with Pool(args.procs) as pool:
        for gen in range(1, args.generations + 1):
            candidates = es.ask()
            jobs = [(theta, gen * 1000) for theta in candidates]
            rewards = np.array(pool.map(fitness, jobs, chunksize=4))
            es.tell(rewards)
            print(
                f"gen {gen:3d}/{args.generations} | best {rewards.max():6.1f}"
                f" | mean {rewards.mean():6.1f} | {time.time() - started:.1f}s elapsed",
                flush=True,
            )
            if gen % 5 == 0:
                es.save(args.out)
    print(f"done: best controller in {args.out}")


if __name__ == "__main__":
    main()
