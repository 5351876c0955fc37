"""Write token shards, and build the packer."""

import subprocess
from pathlib import Path

import numpy as np

VOCAB = 300


def main() -> None:
    Path("tokens").mkdir(exist_ok=True)
    for shard in range(6):
        rng = np.random.default_rng(shard)
        start = rng.integers(0, VOCAB, size=(240, 1))
        ids = (start + np.arange(48) * rng.integers(1, 4, size=(240, 1))) % VOCAB
        np.save(f"tokens/shard{shard}.npy", ids.astype(np.int64))
    subprocess.run(
        ["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", "libpacker.so", "packer.c"], check=True
    )


if __name__ == "__main__":
    main()
