"""Write keyword clips as tar shards: NAME.f32 holds the samples, NAME.json the label."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def main() -> None:
    Path("shards").mkdir(exist_ok=True)
    rng = np.random.default_rng(2)
    for shard in range(8):
        with tarfile.open(f"shards/clips-{shard:04d}.tar", "w") as tar:
            for n in range(160):
                label = int(rng.integers(0, 4))
                wave = np.sin(np.arange(4000) * 0.01 * (label + 1)) + rng.normal(size=4000)
                key = f"clip{shard:02d}{n:04d}"
                add(tar, f"{key}.f32", wave.astype(np.float32).tobytes())
                add(tar, f"{key}.json", json.dumps({"label": label, "rate": 16000}).encode())


if __name__ == "__main__":
    main()
