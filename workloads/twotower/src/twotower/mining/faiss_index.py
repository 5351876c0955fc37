"""Search with FAISS in the training process: the incident's way.

IndexFlatIP holds a second copy of the bank (2.4 GB at the incident's size). IVF and HNSW answer
sooner and find nearly the same. FAISS brings an OpenMP runtime of its own into the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.faiss_server import build_index


class FaissMiner:
    def __init__(self, bank_MD: Array, index: str = "flat", threads: int = 0) -> None:
        self._bank_MD, self._kind, self._threads = bank_MD, index, threads
        self._index: Any = None

    def search(self, q_QD: Tensor, k: int) -> Tensor:
        if self._index is None:  # built at the first search, as the incident's script did
            self._index = build_index(self._bank_MD, self._kind, self._threads)
        _, ids_QK = self._index.search(q_QD.numpy(), k)
        return torch.from_numpy(np.asarray(ids_QK, np.int64))

    def close(self) -> None:
        self._index = None
