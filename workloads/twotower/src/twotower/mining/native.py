"""Search and gather by the hand-made C kernels, on their OpenMP runtimes (see twotower.native)."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.native import load_kernel


class NativeMiner:
    def __init__(self, bank_MD: Array) -> None:
        self._bank_MD = bank_MD

    def search(self, q_QD: Tensor, k: int) -> Tensor:
        # Loaded at the first search: until then nothing tells that a second runtime will come.
        kernel = load_kernel("topk")
        best_QK = torch.full((len(q_QD), k), -torch.inf)
        ids_QK = torch.full((len(q_QD), k), -1, dtype=torch.int64)
        kernel.search_top_k(
            ctypes.c_void_p(q_QD.data_ptr()),
            ctypes.c_void_p(self._bank_MD.ctypes.data),
            ctypes.c_void_p(best_QK.data_ptr()),
            ctypes.c_void_p(ids_QK.data_ptr()),
            *(ctypes.c_int64(n) for n in (len(q_QD), *self._bank_MD.shape, k)),
        )
        return ids_QK

    def close(self) -> None:
        pass


def gather_with_kernel(x_NLD: Array, rows_R: Array, out_RLD: Array) -> None:
    """`twotower.loader.gather_with_numpy`, by the C kernel `gather`."""
    rows_R = np.ascontiguousarray(rows_R, np.int64)
    load_kernel("gather").gather_rows(
        ctypes.c_void_p(x_NLD.ctypes.data),
        ctypes.c_void_p(rows_R.ctypes.data),
        ctypes.c_void_p(out_RLD.ctypes.data),
        ctypes.c_int64(len(rows_R)),
        ctypes.c_int64(x_NLD[0].nbytes),
    )
