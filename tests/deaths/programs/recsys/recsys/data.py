"""Shards of clicks, streamed by the loader's workers."""
import csv
import json
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info


def read_index(root):
    return json.loads((Path(root) / "index.json").read_text())


class ClickStream(IterableDataset):
    def __init__(self, root, index, min_dwell=0, fmt="csv"):
        self.root, self.index, self.min_dwell, self.fmt = Path(root), index, min_dwell, fmt

    def _rows(self, path):
        if self.fmt == "parquet":
            import pandas as pd

            yield from pd.read_parquet(path.with_suffix(".parquet")).to_dict("records")
            return
        with path.open(newline="") as f:
            yield from csv.DictReader(f)

    def _parse(self, row):
        return int(row["user_id"]), int(row["item_id"]), float(row["clicked"]), int(row["dwell_ms"])

    def __iter__(self):
        info = get_worker_info()
        shards = self.index["shards"]
        if info is not None:
            shards = shards[info.id :: info.num_workers]
        for name in shards:
            for row in self._rows(self.root / name):
                user, item, clicked, dwell = self._parse(row)
                if dwell >= self.min_dwell:
                    yield user, item, clicked


class Negatives:
    def __init__(self, root, index):
        with np.load(Path(root) / index["negatives"]) as z:
            self.user, self.item = torch.from_numpy(z["user"]), torch.from_numpy(z["item"])

    def draw(self, n, generator):
        pick = torch.randint(len(self.user), (n,), generator=generator)
        return self.user[pick], self.item[pick]
