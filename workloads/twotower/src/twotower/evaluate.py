"""How well queries find their targets: Recall@k and MRR over the whole bank.

The rank of a target is one more than the number of bank rows that score higher. It is counted a
block of rows at a time, straight from the mapped bank; nothing is sorted. Where the data names the
bank rows that a sequence is made of, they are not ranked: whoever asks has them already, and the
baselines would find themselves. The two baselines need no training: the last vector of the
sequence as the query, and the mean of its vectors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from twotower.archive import Array
from twotower.dataset import Split, as_tensor
from twotower.model import QueryTower

CUTOFFS = (1, 10, 100, 500, 1000)
_BLOCK_ROWS = 8192
_SAME = 1e-6  # scores closer than this are one vector met twice, rounded two ways


def evaluate(
    model: QueryTower,
    split: Split,
    bank_MD: Array,
    rows: int = 0,
    device: torch.device | str = "cpu",
    with_baselines: bool = True,
    with_context: bool = False,
) -> dict[str, dict[str, float]]:
    """Metrics by method. `rows` limits the queries (0: all); `with_context` ranks all rows."""
    count = min(rows, len(split)) if rows else len(split)
    queries_QD: dict[str, list[Tensor]] = {"model": [], "last vector": [], "mean vector": []}
    with torch.no_grad():
        for start in range(0, count, 64):
            x_BLD = as_tensor(split.x_NLD[start : min(count, start + 64)])
            queries_QD["model"].append(model(x_BLD.to(device)).cpu())
            if with_baselines:
                queries_QD["last vector"].append(F.normalize(x_BLD[:, -1], dim=-1))
                queries_QD["mean vector"].append(F.normalize(x_BLD.mean(1), dim=-1))
    results = {}
    for method, parts in queries_QD.items():
        if parts:
            ranks_Q = target_ranks(torch.cat(parts), split, bank_MD, with_context)
            results[method] = summarise(ranks_Q)
    return results


def target_ranks(q_QD: Tensor, split: Split, bank_MD: Array, with_context: bool = False) -> Tensor:
    """The rank of each query's target, 1 being the best."""
    own_Q = torch.einsum("qd,qd->q", q_QD, as_tensor(split.y_ND[: len(q_QD)]))
    bar_Q1 = (own_Q + _SAME)[:, None]
    better_Q = torch.zeros(len(q_QD), dtype=torch.int64)
    for start in range(0, len(bank_MD), _BLOCK_ROWS):
        block_bD = as_tensor(bank_MD[start : start + _BLOCK_ROWS])
        better_Q += (q_QD @ block_bD.t() > bar_Q1).sum(1)
    if split.context_NL is not None and not with_context:
        for start in range(0, len(q_QD), 256):
            x_BLD = as_tensor(split.x_NLD[start : min(len(q_QD), start + 256)])
            scores_BL = torch.einsum("bld,bd->bl", x_BLD, q_QD[start : start + 256])
            is_row_BL = as_tensor(split.context_NL[start : start + 256][: len(x_BLD)]) >= 0
            higher_BL = (scores_BL > bar_Q1[start : start + 256]) & is_row_BL
            better_Q[start : start + 256] -= higher_BL.sum(1)
    return better_Q + 1


def summarise(ranks_Q: Tensor) -> dict[str, float]:
    ranks_Q = ranks_Q.double()
    metrics = {f"recall@{k}": float((ranks_Q <= k).double().mean()) for k in CUTOFFS}
    return {**metrics, "mrr": float((1 / ranks_Q).mean())}


def as_table(results: dict[str, dict[str, float]]) -> str:
    """For people: one line per method."""
    names = [*(f"recall@{k}" for k in CUTOFFS), "mrr"]
    lines = [f"{'':12}" + "".join(f"{name:>13}" for name in names)]
    for method, metrics in results.items():
        lines.append(f"{method:12}" + "".join(f"{metrics[name]:13.4f}" for name in names))
    return "\n".join(lines)
