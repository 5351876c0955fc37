"""Write load/day-NN.jsonl: hourly power with a daily cycle."""
import json
from pathlib import Path

import numpy as np

rng = np.random.default_rng(2)
out = Path("load")
out.mkdir(exist_ok=True)
level = 50.0
for day in range(30):
    level += rng.normal(0, 0.5)
    with (out / f"day-{day:02d}.jsonl").open("w") as f:
        for hour in range(24):
            mw = level + 15 * np.sin(2 * np.pi * (hour - 7) / 24) + rng.normal(0, 1)
            f.write(json.dumps({"hour": day * 24 + hour, "mw": round(float(mw), 2), "temp": round(float(rng.normal(12, 4)), 1)}) + "\n")
