"""Exact search straight from the mapped bank: no index, no second copy, no second OpenMP runtime.

Two ways to the same answer. On processors with AVX-512 VNNI and with a C compiler at hand, int8
products under an error bound rule out nearly all rows, and only the rest are computed in float
(twotower/native/filtered_topk.c, plain threads). Elsewhere a product in torch and a top-k per
block of rows.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.dataset import as_tensor
from twotower.errors import TwotowerError
from twotower.native.compile import compile_kernel, cpu_flags

BLOCK_ROWS = 4096  # 12 MB of bank at width 768, 32 MB of scores for 2,048 queries
_GROUP = 64  # scores per group: the best k of a block lie in the k groups with the best maxima


class ExactMiner:
    def __init__(
        self, bank_MD: Array, block_rows: int = BLOCK_ROWS, is_filtered: bool | None = None
    ) -> None:
        self._bank_MD, self._block_rows = bank_MD, block_rows
        self.is_filtered = load_filter() is not None if is_filtered is None else is_filtered

    def search(self, q_QD: Tensor, k: int) -> Tensor:
        if self.is_filtered:
            return _search_filtered(q_QD.contiguous(), self._bank_MD, k)
        return _search_in_torch(q_QD, self._bank_MD, k, self._block_rows)

    def close(self) -> None:
        pass


# -- by int8 and a bound ------------------------------------------------------------------------


class _Job(ctypes.Structure):
    """job_t of filtered_topk.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("queries", "bank", "best", "ids")),
        *((name, ctypes.c_int64) for name in ("count", "width", "k", "first_row", "end_row")),
        ("looked_at", ctypes.c_int64),
    )


@cache
def load_filter() -> ctypes.CDLL | None:
    """The kernel, or None where it cannot run; then torch does the same more slowly."""
    if not {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= cpu_flags():
        return None
    try:
        return ctypes.CDLL(str(compile_kernel("filtered_topk")))
    except (TwotowerError, OSError):
        return None


def _search_filtered(q_QD: Tensor, bank_MD: Array, k: int) -> Tensor:
    """Each thread searches a part of the rows into lists of its own; the lists are then merged."""
    kernel = load_filter()
    assert kernel is not None
    Q, (M, D) = len(q_QD), bank_MD.shape
    parts = min(torch.get_num_threads(), max(1, M // 1024))
    best_PQk = torch.full((parts, Q, k), -torch.inf)
    ids_PQk = torch.full((parts, Q, k), -1, dtype=torch.int64)
    jobs = [
        _Job(
            *(q_QD.data_ptr(), bank_MD.ctypes.data, best_PQk[p].data_ptr(), ids_PQk[p].data_ptr()),
            *(Q, D, k, M * p // parts, M * (p + 1) // parts, 0),
        )
        for p in range(parts)
    ]
    with ThreadPoolExecutor(parts) as pool:  # ctypes gives up the interpreter lock meanwhile
        if any(pool.map(lambda job: kernel.search_rows(ctypes.byref(job)), jobs)):
            raise MemoryError("no memory for the int8 queries")
    # Parts are in the order of their rows, and equal scores keep that order.
    merged = best_PQk.permute(1, 0, 2).flatten(1).sort(dim=1, descending=True, stable=True)
    return ids_PQk.permute(1, 0, 2).flatten(1).gather(1, merged.indices[:, :k])


# -- by products in torch -----------------------------------------------------------------------


def _search_in_torch(q_QD: Tensor, bank_MD: Array, k: int, block_rows: int) -> Tensor:
    Q, M = len(q_QD), len(bank_MD)
    best_QK = q_QD.new_full((Q, k), -torch.inf)
    ids_QK = torch.full((Q, k), -1, dtype=torch.int64)
    scores = q_QD.new_empty(Q, min(block_rows, M))
    for start in range(0, M, block_rows):
        block_bD = _aligned(bank_MD[start : start + block_rows])
        scores_Qb = torch.mm(q_QD, block_bD.t(), out=scores[:, : len(block_bD)])
        place_Qk = _top_k(scores_Qb, min(k, len(block_bD)))
        # In the order of the rows and sorted stably: of equal scores the earlier row comes first.
        ids_QK = torch.cat((ids_QK, place_Qk + start), dim=1)
        both = torch.cat((best_QK, scores_Qb.gather(1, place_Qk)), dim=1)
        best_QK, order_QK = both.sort(dim=1, descending=True, stable=True)
        best_QK, ids_QK = best_QK[:, :k], ids_QK.gather(1, order_QK[:, :k])
    return ids_QK


def _aligned(block: Array) -> Tensor:
    """The block where it lies, or a copy if its floats do not begin at a multiple of their size."""
    return as_tensor(block if block.flags.aligned else np.array(block))


def _top_k(scores_Qb: Tensor, k: int) -> Tensor:
    """Places of the k largest of each row, ascending; for wide rows by way of groups' maxima."""
    Q, b = scores_Qb.shape
    if b % _GROUP or b // _GROUP <= k:
        return scores_Qb.topk(k, dim=1).indices.sort(dim=1).values
    groups_QgG = scores_Qb.view(Q, b // _GROUP, _GROUP)
    best_groups_Qk = groups_QgG.amax(2).topk(k, dim=1).indices
    within_QkG = groups_QgG.gather(1, best_groups_Qk[:, :, None].expand(-1, -1, _GROUP))
    top_Qk = within_QkG.flatten(1).topk(k, dim=1).indices
    places_Qk = best_groups_Qk.gather(1, top_Qk // _GROUP) * _GROUP + top_Qk % _GROUP
    return places_Qk.sort(dim=1).values
