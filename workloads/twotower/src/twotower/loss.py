"""InfoNCE for a chunk of micro-batches at once.

Each query is to find its target among: the other targets of its micro-batch, the memory bank as
it stood when that micro-batch came, and its mined negatives. Several micro-batches are computed
in one product; masks give each the negatives it would have met alone: targets of earlier
micro-batches count as pushed, slots of the ring that they took over count as gone. The target, met
again, is never a negative, nor is what the query itself is made of.

Documents are constants, so the gradient goes to the queries alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from twotower.loader import Chunk
from twotower.memory import MemoryBank

# The logit of what a row must not see. Beside real ones, at most 1/temperature, exp() of it is
# exactly 0; an infinity would do the same but for a NaN gradient where a row sees nothing.
_ABSENT = -1e4


def info_nce(
    q_RD: Tensor,
    chunk: Chunk,
    memory: MemoryBank,
    mined_RHD: Tensor | None,
    mined_ids_RH: Tensor | None,
    temperature: float,
) -> Tensor:
    """The loss of each own row, (R,)."""
    device = q_RD.device
    own_R, micro_R = chunk.own_R, chunk.micro_C[chunk.own_R]
    batch_size = len(chunk.micro_C) // chunk.micro_batches
    begin_R = micro_R * batch_size  # rows of the chunk that came before a row's micro-batch

    # Targets of the chunk: those of the own micro-batch, and of earlier ones while remembered.
    y_CD = chunk.y_CD.to(device)
    place_C = torch.arange(len(chunk.micro_C))
    is_seen_RC = chunk.micro_C == micro_R[:, None]
    is_seen_RC |= (place_C < begin_R[:, None]) & (place_C >= begin_R[:, None] - memory.capacity)
    for hidden_R in chunk.hidden_RI.unbind(1):
        is_seen_RC &= chunk.target_C != hidden_R[:, None]
    is_own_RC = place_C == own_R[:, None]
    logits_RC = q_RD @ y_CD.t() / temperature
    parts_R = [logits_RC.masked_fill(~(is_seen_RC | is_own_RC).to(device), _ABSENT).logsumexp(1)]

    if memory.count:
        gone_rows, gone_columns = _hidden_slots(memory, chunk.hidden_RI, begin_R)
        parts_R.append(
            _LogSumExpOverConstants.apply(
                q_RD,
                memory.vectors_KD[: memory.count],
                temperature,
                gone_rows.to(device),
                gone_columns.to(device),
            )
        )
    if mined_RHD is not None and mined_ids_RH is not None:
        logits_RH = torch.einsum("rd,rhd->rh", q_RD, mined_RHD.to(device)) / temperature
        parts_R.append(logits_RH.masked_fill((mined_ids_RH < 0).to(device), _ABSENT).logsumexp(1))

    positive_R = logits_RC.gather(1, own_R.to(device)[:, None]).squeeze(1)
    return torch.stack(parts_R).logsumexp(0) - positive_R


def _hidden_slots(memory: MemoryBank, hidden_RI: Tensor, begin_R: Tensor) -> tuple[Tensor, Tensor]:
    """(row, slot) pairs of the ring that a row must not see, a short list in practice."""
    ids_K = memory.ids_K[: memory.count]
    copies_S = torch.isin(ids_K, hidden_RI).nonzero().squeeze(1)
    is_hidden_RS = (ids_K[copies_S] == hidden_RI[:, :, None]).any(1)
    rows, columns = is_hidden_RS.nonzero(as_tuple=True)
    hidden = [(rows, copies_S[columns])]

    # Slots from `head` on are overwritten first, by the rows of earlier micro-batches.
    age_P = torch.arange(min(int(begin_R.max()), memory.capacity))
    slot_P = (memory.head + age_P) % memory.capacity
    rows, columns = ((age_P < begin_R[:, None]) & (slot_P < memory.count)).nonzero(as_tuple=True)
    hidden.append((rows, slot_P[columns]))
    return torch.cat([r for r, _ in hidden]), torch.cat([c for _, c in hidden])


class _LogSumExpOverConstants(torch.autograd.Function):
    """logsumexp(q Kᵀ / t) of each row: one (R, K) buffer for both passes, no gradient for K."""

    @staticmethod
    def forward(
        ctx: Any, q_RD: Tensor, k_KD: Tensor, temperature: float, rows: Tensor, columns: Tensor
    ) -> Tensor:
        logits_RK = torch.mm(q_RD, k_KD.t()).div_(temperature)
        logits_RK[rows, columns] = _ABSENT
        top_R1 = logits_RK.amax(1, keepdim=True)
        weights_RK = logits_RK.sub_(top_R1).exp_()
        sum_R1 = weights_RK.sum(1, keepdim=True)
        ctx.kept = (weights_RK, sum_R1, k_KD, temperature)
        return (top_R1 + sum_R1.log()).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        weights_RK, sum_R1, k_KD, temperature = ctx.kept
        scale_R1 = grad_outputs[0][:, None] / (temperature * sum_R1)
        grad_RD = torch.mm(weights_RK, k_KD).mul_(scale_R1)
        ctx.kept = None
        return grad_RD, None, None, None, None
