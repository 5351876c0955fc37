import argparse

import numpy as np
import pandas as pd

ap = argparse.ArgumentParser()
ap.add_argument("--rows", type=int, default=1500)
ap.add_argument("--out", default="loans.csv")
args = ap.parse_args()
rng = np.random.default_rng(4)
n = args.rows
df = pd.DataFrame({
    "loan_id": np.arange(n),
    "income": rng.lognormal(10, 0.5, n).round(2),
    "amount": rng.lognormal(9, 0.7, n).round(2),
    "age": rng.integers(18, 80, n),
    "region": rng.choice(list("NESW"), n),
    "opened": pd.date_range("2020-01-01", periods=n, freq="h").strftime("%Y-%m-%d"),
})
score = df.amount / df.income + rng.normal(0, 0.2, n)
df["grade"] = pd.qcut(score, 4, labels=False)
df.to_csv(args.out, index=False)
print(f"wrote {n} loans to {args.out}")
