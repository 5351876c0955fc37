"""The FIFO memory bank: the targets of recent batches, as negatives for the next ones.

A ring that is written in place; nothing is concatenated or moved. Documents are constants (their
tower is the identity), so a checkpoint keeps which rows of the bank are in the ring, not the rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array


class MemoryBank:
    def __init__(self, capacity: int, dimension: int, device: torch.device) -> None:
        self.capacity = capacity
        self.vectors_KD = torch.empty(capacity, dimension, device=device)
        self.ids_K = torch.full((capacity,), -1, dtype=torch.int64)
        self.head = 0  # where the next one goes; once the ring is full, the oldest
        self.count = 0

    def push(self, y_CD: Tensor, ids_C: Tensor) -> None:
        if not self.capacity:
            return
        y_CD, ids_C = y_CD[-self.capacity :], ids_C[-self.capacity :]
        first = min(len(ids_C), self.capacity - self.head)
        for part, start in ((slice(0, first), self.head), (slice(first, None), 0)):
            rows = len(ids_C[part])
            self.vectors_KD[start : start + rows] = y_CD[part]
            self.ids_K[start : start + rows] = ids_C[part]
        self.head = (self.head + len(ids_C)) % self.capacity
        self.count = min(self.capacity, self.count + len(ids_C))

    def state(self) -> dict[str, Tensor | int]:
        return {"ids": self.ids_K[: self.count].clone(), "head": self.head, "count": self.count}

    def restore(self, state: dict[str, Tensor | int], bank_MD: Array) -> None:
        ids, head, count = state["ids"], state["head"], state["count"]
        assert isinstance(ids, Tensor) and isinstance(head, int) and isinstance(count, int)
        self.head, self.count = head, count
        self.ids_K[:count] = ids
        for start in range(0, count, 4096):
            rows = ids[start : start + 4096].numpy()
            self.vectors_KD[start : start + len(rows)] = torch.from_numpy(np.asarray(bank_MD[rows]))
