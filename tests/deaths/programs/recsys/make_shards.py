"""Write data/shard-000.csv … and data/index.json; the last shard is an npz of negatives."""
import csv
import json
import os
import random

import numpy as np


def main(path="data", shards=6, rows=800, users=200, items=300):
    random.seed(5)
    os.makedirs(path, exist_ok=True)
    names = []
    for s in range(shards):
        name = f"shard-{s:03d}.csv"
        with open(os.path.join(path, name), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["user_id", "item_id", "clicked", "dwell_ms"])
            for _ in range(rows):
                u, i = random.randrange(users), random.randrange(items)
                w.writerow([u, i, int((u * 7 + i * 3) % 10 < 4), random.randrange(200, 90000)])
        names.append(name)
    rng = np.random.default_rng(0)
    np.savez_compressed(os.path.join(path, "negatives.npz"), user=rng.integers(0, users, 20000), item=rng.integers(0, items, 20000))
    with open(os.path.join(path, "index.json"), "w") as f:
        json.dump({"users": users, "items": items, "shards": names, "negatives": "negatives.npz"}, f, indent=1)


if __name__ == "__main__":
    main()
