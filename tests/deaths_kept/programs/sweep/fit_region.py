"""Fit one region's demand with LightGBM and write its score."""

import argparse
import json

import lightgbm as lgb
import numpy as np


def load(path, repeat):
    with np.load(path) as table:
        x, y = table["x"], table["y"]
    return np.tile(x, (repeat, 1)), np.tile(y, repeat)


def report(period):
    def callback(env):
        if (env.iteration + 1) % period == 0:
            _, metric, value, _ = env.evaluation_result_list[0]
            print(f"[{env.iteration + 1}]\tvalid {metric}: {value:.5f}", flush=True)

    return callback


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--region", required=True)
    p.add_argument("--objective", default="regression")
    p.add_argument("--rounds", type=int, default=60)
    p.add_argument("--repeat", type=int, default=1, help="copies of the table, to weight it")
    p.add_argument("--every", type=int, default=10)
    args = p.parse_args()
    x, y = load(f"tables/{args.region}.npz", args.repeat)
    cut = int(len(x) * 0.8)
    train_set = lgb.Dataset(x[:cut], y[:cut])
    valid_set = lgb.Dataset(x[cut:], y[cut:], reference=train_set)
    params = {"objective": args.objective, "num_threads": 1, "verbosity": -1, "metric": "l2"}
    booster = lgb.train(
        params, train_set, args.rounds, valid_sets=[valid_set], callbacks=[report(args.every)]
    )
    score = float(np.mean((booster.predict(x[cut:]) - y[cut:]) ** 2))
    booster.save_model(f"{args.region}.lgb.txt")
    with open(f"{args.region}.json", "w") as out:
        json.dump({"region": args.region, "mse": score}, out)
    print(f"{args.region}: mse {score:.4f}", flush=True)


if __name__ == "__main__":
    main()
