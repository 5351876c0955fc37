"""Exact search straight from the mapped bank: a product and a top-k per block of rows.

No index is built and the bank is never copied as a whole. Everything runs in torch, so no other
OpenMP runtime comes into the process.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.dataset import as_tensor

BLOCK_ROWS = 4096  # 12 MB of bank at width 768, 32 MB of scores for 2,048 queries
_GROUP = 64  # scores per group: the best k of a block lie in the k groups with the best maxima


class ExactMiner:
    def __init__(self, bank_MD: Array, block_rows: int = BLOCK_ROWS) -> None:
        self._bank_MD, self._block_rows = bank_MD, block_rows

    def search(self, q_QD: Tensor, k: int) -> Tensor:
        Q, M = len(q_QD), len(self._bank_MD)
        best_QK = q_QD.new_full((Q, k), -torch.inf)
        ids_QK = torch.full((Q, k), -1, dtype=torch.int64)
        scores = q_QD.new_empty(Q, min(self._block_rows, M))
        for start in range(0, M, self._block_rows):
            block_bD = _aligned(self._bank_MD[start : start + self._block_rows])
            scores_Qb = torch.mm(q_QD, block_bD.t(), out=scores[:, : len(block_bD)])
            top_Qk, place_Qk = _top_k(scores_Qb, min(k, len(block_bD)))
            # Ties go to the earlier row, as in a search over all rows at once: stable, old first.
            both = torch.cat((best_QK, top_Qk), dim=1).sort(dim=1, descending=True, stable=True)
            best_QK = both.values[:, :k]
            ids_QK = torch.cat((ids_QK, place_Qk + start), dim=1).gather(1, both.indices[:, :k])
        return ids_QK

    def close(self) -> None:
        pass


def _aligned(block: Array) -> Tensor:
    """The block where it lies, or a copy if its floats do not begin at a multiple of their size."""
    return as_tensor(block if block.flags.aligned else np.array(block))


def _top_k(scores_Qb: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`topk` of each row, best first; for wide rows by way of the maxima of groups."""
    Q, b = scores_Qb.shape
    if b % _GROUP or b // _GROUP <= k:
        top = scores_Qb.topk(k, dim=1)
        return top.values, top.indices
    groups_QgG = scores_Qb.view(Q, b // _GROUP, _GROUP)
    best_groups_Qk = groups_QgG.amax(2).topk(k, dim=1).indices.sort(dim=1).values
    within_QkG = groups_QgG.gather(1, best_groups_Qk[:, :, None].expand(-1, -1, _GROUP))
    top = within_QkG.flatten(1).topk(k, dim=1)
    group_Qk, place_Qk = top.indices // _GROUP, top.indices % _GROUP
    return top.values, best_groups_Qk.gather(1, group_Qk) * _GROUP + place_Qk
