"""Cross-validated LightGBM on loans. One process per fold with --jobs."""
import argparse
import logging
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

import features

logging.basicConfig(format="[%(levelname)1.1s %(asctime)s %(module)s:%(lineno)d] %(message)s", level=logging.INFO, datefmt="%y%m%d %H:%M:%S")
warnings.filterwarnings("ignore", category=FutureWarning)
logger = logging.getLogger(__name__)


def build(df, names):
    parts = [df[["income", "amount", "age"]].astype(float)]
    for name in names:
        parts.append(features.ALL[name](df))
    return pd.concat(parts, axis=1)


def blow_up(X, times):
    """Interactions of all columns, as a poor man's feature cross."""
    values = X.to_numpy(dtype=np.float64)
    crossed = [values * values[:, [i % values.shape[1]]] * (1 + i) for i in range(times)]
    return np.hstack([values, *crossed])


def fit_fold(fold, X, y, train, valid, args):
    logger.info("fold %d: %d train, %d valid, pid %d", fold, len(train), len(valid), os.getpid())
    params = {"objective": "multiclass", "num_class": args.classes, "verbosity": -1, "num_threads": 1, "learning_rate": 0.1, "seed": fold}
    values = blow_up(X, args.cross) if args.cross else X.to_numpy(dtype=np.float64)
    data = lgb.Dataset(values[train], y[train])
    booster = lgb.train(params, data, args.rounds, valid_sets=[lgb.Dataset(values[valid], y[valid], reference=data)])
    score = booster.best_score["valid_0"]["multi_logloss"]
    time.sleep(args.cooldown)
    return fold, score, booster.model_to_string()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="loans.csv")
    ap.add_argument("--out", default="model.txt")
    ap.add_argument("--features", nargs="*", default=["ratio", "age_band", "region"])
    ap.add_argument("--folds", type=int, default=4)
    ap.add_argument("--rounds", type=int, default=25)
    ap.add_argument("--classes", type=int, default=4)
    ap.add_argument("--jobs", type=int, default=1)
    ap.add_argument("--cross", type=int, default=0, metavar="N", help="cross the columns N times")
    ap.add_argument("--cooldown", type=float, default=0.0)
    ap.add_argument("--keep-going", action="store_true", help="a fold that fails does not end the others")
    args = ap.parse_args()

    df = pd.read_csv(args.data)
    logger.info("read %d rows, columns %s", len(df), list(df.columns))
    logger.warning("ERROR budget for missing values: 0 of 1500 used")
    folds = list(StratifiedKFold(args.folds, shuffle=True, random_state=0).split(df, df["grade"]))
    y = df["grade"].to_numpy()
    results = []
    if args.jobs > 1:
        X = build(df, args.features)
        with ProcessPoolExecutor(args.jobs) as pool:
            futures = [pool.submit(fit_fold, k, X, y, tr, va, args) for k, (tr, va) in enumerate(folds)]
            results = [f.result() for f in futures]
    else:
        for k, (tr, va) in enumerate(folds):
            try:
                results.append(fit_fold(k, build(df, args.features), y, tr, va, args))
                logger.info("fold %d: logloss %.4f", k, results[-1][1])
            except Exception as e:
                if not args.keep_going:
                    raise
                logger.warning("fold %d failed: %s", k, e)
    best = min(results, key=lambda r: r[1])
    logger.info("mean logloss %.4f, best fold %d", np.mean([r[1] for r in results]), best[0])
    with open(args.out, "w") as f:
        f.write(best[2])


if __name__ == "__main__":
    main()
