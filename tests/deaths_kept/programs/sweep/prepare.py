"""Write the four regional demand tables."""

from pathlib import Path

import numpy as np

REGIONS = ["north", "east", "south", "west"]


def main() -> None:
    Path("tables").mkdir(exist_ok=True)
    for n, region in enumerate(REGIONS):
        rng = np.random.default_rng(n)
        x = rng.normal(size=(4000, 12))
        y = x[:, 0] * 3 + np.abs(x[:, 1]) + rng.normal(size=4000)
        np.savez_compressed(f"tables/{region}.npz", x=x, y=y)


if __name__ == "__main__":
    main()
