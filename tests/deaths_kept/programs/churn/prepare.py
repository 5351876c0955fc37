"""Write twelve monthly extracts and the configuration."""

import json
from pathlib import Path

import numpy as np
import pandas as pd


def main() -> None:
    Path("extracts").mkdir(exist_ok=True)
    rng = np.random.default_rng(4)
    for month in range(1, 13):
        n = 800
        tenure = rng.integers(1, 60, n)
        charge = rng.normal(60, 15, n).round(2)
        contract = rng.choice(["monthly", "yearly", "two-year"], n)
        risk = 1.5 - 0.07 * tenure + 0.02 * charge + (contract == "monthly") * 1.2
        frame = pd.DataFrame({
            "customer_id": rng.integers(0, 400, n),
            "tenure": tenure,
            "monthly_charge": charge,
            "contract": contract,
            "calls": rng.poisson(2, n),
            "churned": (risk + rng.normal(size=n) > 1.0).astype(int),
        })
        frame.to_csv(f"extracts/2026-{month:02d}.csv", index=False)
    config = {
        "extracts": "extracts",
        "months": [f"2026-{m:02d}" for m in range(1, 13)],
        "target": "churned",
        "numeric": ["tenure", "monthly_charge", "calls"],
        "categorical": ["contract"],
        "model": {"kind": "boosting", "rounds": 40, "learning_rate": 0.1},
        "minimum_auc": 0.6,
    }
    Path("churn.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
