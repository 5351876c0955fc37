"""The same net, searched with optuna; trials that raise are recorded as failed and the study goes on."""
import argparse
import logging

import numpy as np
import optuna

ap = argparse.ArgumentParser()
ap.add_argument("--trials", type=int, default=6)
ap.add_argument("--data", default="spirals.npy")
ap.add_argument("--catch", action="store_true", help="go on after a trial that failed")
ap.add_argument("--max-layers", type=int, default=2)
args = ap.parse_args()


def forward(x, layers):
    for w in layers:
        x = np.tanh(x @ w)
    return x


def objective(trial):
    width = trial.suggest_int("width", 4, 32, log=True)
    depth = trial.suggest_int("depth", 1, args.max_layers)
    data = np.load(args.data)
    x, y = data[:, :2], data[:, 2]
    rng = np.random.default_rng(trial.number)
    # a narrow waist in the middle of deep nets
    sizes = [2] + [width // (2 if i == 2 else 1) for i in range(depth)]
    layers = [rng.normal(size=(a if i < 3 else width, b)) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]
    h = forward(x, layers)
    w, *_ = np.linalg.lstsq(h, y, rcond=None)
    loss = float(np.mean((h @ w - y) ** 2))
    for step in range(5):
        trial.report(loss, step)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return loss


def main():
    logging.getLogger("optuna").setLevel(logging.INFO)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.RandomSampler(seed=2))
    study.optimize(objective, n_trials=args.trials, catch=(Exception,) if args.catch else ())
    print(f"best value {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
