"""Write one shard of tabular data for each rank, as the export job does."""

from pathlib import Path

import numpy as np


def main() -> None:
    Path("shards").mkdir(exist_ok=True)
    weights = np.random.default_rng(0).normal(size=(32,))
    for rank in range(2):
        rng = np.random.default_rng(rank + 1)
        features = rng.normal(size=(6400, 32)).astype(np.float32)
        target = (features @ weights > 0).astype(np.int64)
        np.savez(f"shards/part-{rank}.npz", features=features, target=target)


if __name__ == "__main__":
    main()
