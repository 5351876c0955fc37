"""Hard negatives: the documents a query now finds nearest, without the right ones.

Comes in: the model, the queries whose turn comes next, a `Miner`. Goes out: bank rows per query.
A miner only searches; what counts as a negative is decided here, the same for all of them: never
the target, nothing so near to the target that it says the same, nothing of the query's own
sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.dataset import Split, as_tensor

_SPARE = 16  # found beyond what is kept, to have enough when near-duplicates are dropped


class Miner(Protocol):
    """Finds the k bank rows with the largest inner product, best first."""

    def search(self, q_QD: Tensor, k: int) -> Tensor: ...

    def close(self) -> None: ...


def open_miner(
    name: str, bank_path: Path, bank_MD: Array, index: str, threads: int
) -> Miner | None:
    """The miner by its name. Imports happen here: nobody loads a library that is not asked for."""
    if name == "none":
        return None
    if name == "exact":
        from twotower.mining.exact import ExactMiner

        return ExactMiner(bank_MD)
    if name == "faiss":
        from twotower.mining.faiss_index import FaissMiner

        return FaissMiner(bank_MD, index, threads)
    if name == "faiss-process":
        from twotower.mining.faiss_process import FaissProcessMiner

        return FaissProcessMiner(bank_path, index, threads)
    if name == "native":
        from twotower.mining.native import NativeMiner

        return NativeMiner(bank_MD)
    raise ValueError(f"no miner {name!r}")


def choose_negatives(
    found_QK: Tensor,
    split: Split,
    rows_Q: Array,
    bank_MD: Array,
    keep: int,
    duplicate_cosine: float,
) -> Tensor:
    """(Q, keep) bank rows, -1 where there are not enough."""
    chosen_QH = torch.full((len(rows_Q), keep), -1, dtype=torch.int64)
    for q, row in enumerate(rows_Q):
        ids_K = found_QK[q][found_QK[q] >= 0]
        near_K = as_tensor(bank_MD[ids_K.numpy()]) @ as_tensor(split.y_ND[row])
        is_negative_K = (ids_K != int(split.target_N[row])) & (near_K < duplicate_cosine)
        if split.context_NL is not None:
            is_negative_K &= ~torch.isin(ids_K, as_tensor(split.context_NL[row]))
        kept = ids_K[is_negative_K][:keep]
        chosen_QH[q, : len(kept)] = kept
    return chosen_QH


def mine(
    miner: Miner,
    q_QD: Tensor,
    split: Split,
    rows_Q: Array,
    bank_MD: Array,
    keep: int,
    duplicate_cosine: float,
) -> Tensor:
    """Negatives for these queries of the split, as the towers see them now."""
    length = 0 if split.context_NL is None else split.context_NL.shape[1]
    k = min(keep + _SPARE + length, len(bank_MD))
    found_QK = miner.search(q_QD.detach().cpu().contiguous(), k)
    return choose_negatives(found_QK, split, np.asarray(rows_Q), bank_MD, keep, duplicate_cosine)
