"""InfoNCE over a chunk equals InfoNCE of its micro-batches one after another."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from twotower.loader import Chunk
from twotower.loss import info_nce
from twotower.memory import MemoryBank

D, TEMPERATURE = 8, 0.1
CPU = torch.device("cpu")


def unit_rows(count: int, generator: torch.Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, D, generator=generator), dim=1)


def chunk_of(
    target_C: Tensor, bank_MD: Tensor, batch: int, own_R: Tensor, context_CL: Tensor | None = None
) -> Chunk:
    C = len(target_C)
    hidden_RI = target_C[own_R][:, None]
    if context_CL is not None:
        hidden_RI = torch.cat((hidden_RI, context_CL[own_R]), dim=1)
    return Chunk(
        rows_C=np.arange(C),
        own_R=own_R,
        micro_C=torch.arange(C) // batch,
        x_RLD=torch.empty(0),
        y_CD=bank_MD[target_C],
        target_C=target_C,
        hidden_RI=hidden_RI,
        step=0,
        is_last=True,
    )


def plain_losses(
    q_CD: Tensor,
    target_C: Tensor,
    bank_MD: Tensor,
    batch: int,
    memory: list[int],
    capacity: int,
    mined_CH: Tensor,
    context_CL: Tensor,
) -> Tensor:
    """One query at a time, the memory bank a list: what the definition says, slowly."""
    losses = []
    for start in range(0, len(target_C), batch):
        targets = target_C[start : start + batch].tolist()
        for place, own in enumerate(targets):
            hidden = {own, *context_CL[start + place].tolist()}
            others = [t for t in targets[:place] + targets[place + 1 :] if t not in hidden]
            remembered = [t for t in memory if t not in hidden]
            mined = [m for m in mined_CH[start + place].tolist() if m >= 0]
            documents = bank_MD[torch.tensor([own, *others, *remembered, *mined])]
            logits = documents @ q_CD[start + place] / TEMPERATURE
            losses.append(logits.logsumexp(0) - logits[0])
        memory = (memory + targets)[-capacity:] if capacity else []
    return torch.stack(losses)


@given(
    batch=st.integers(1, 4),
    micro_batches=st.integers(1, 4),
    capacity=st.integers(0, 14),
    before=st.integers(0, 30),
    mined=st.integers(0, 3),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=150, deadline=None)
def test_a_chunk_sees_what_its_micro_batches_would_see_alone(
    batch: int, micro_batches: int, capacity: int, before: int, mined: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    bank_MD = unit_rows(12, generator)  # few documents: targets repeat and meet their copies
    pushed = torch.randint(12, (before,), generator=generator)
    target_C = torch.randint(12, (batch * micro_batches,), generator=generator)
    q_CD = unit_rows(len(target_C), generator).requires_grad_()
    mined_CH = torch.randint(-1, 12, (len(target_C), max(mined, 1)), generator=generator)
    mined_CH[mined_CH == target_C[:, None]] = -1
    if not mined:
        mined_CH[:] = -1

    memory = MemoryBank(capacity, D, CPU)
    for document in pushed:
        memory.push(bank_MD[document][None], document[None])
    context_CL = torch.randint(-1, 12, (len(target_C), 2), generator=generator)
    context_CL[context_CL == target_C[:, None]] = -1
    chunk = chunk_of(target_C, bank_MD, batch, torch.arange(len(target_C)), context_CL)
    mined_CHD = bank_MD[mined_CH.clamp_min(0)] if mined else None
    loss = info_nce(q_CD, chunk, memory, mined_CHD, mined_CH, TEMPERATURE)
    expected = plain_losses(
        q_CD,
        target_C,
        bank_MD,
        batch,
        pushed.tolist()[-capacity:] if capacity else [],
        capacity,
        mined_CH,
        context_CL,
    )
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), q_CD)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), q_CD)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-4)


def test_two_halves_of_the_rows_have_the_losses_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(3)
    bank_MD = unit_rows(40, generator)
    target_C = torch.randperm(40, generator=generator)[:8]
    q_CD = unit_rows(8, generator)
    memory = MemoryBank(5, D, CPU)
    memory.push(bank_MD[:5], torch.arange(5))
    losses = {}
    for name, own_R in {"all": range(8), "first": (0, 1, 4, 5), "second": (2, 3, 6, 7)}.items():
        own = torch.tensor(list(own_R))
        chunk = chunk_of(target_C, bank_MD, 4, own)
        losses[name] = info_nce(q_CD[own], chunk, memory, None, None, TEMPERATURE)
    torch.testing.assert_close(losses["all"][[0, 1, 4, 5]], losses["first"])
    torch.testing.assert_close(losses["all"][[2, 3, 6, 7]], losses["second"])


@given(
    capacity=st.integers(1, 9),
    pushes=st.lists(st.integers(0, 12), max_size=8),
)
def test_the_ring_holds_the_last_targets_and_comes_back_from_its_ids(
    capacity: int, pushes: list[int]
) -> None:
    bank_MD = np.random.default_rng(0).standard_normal((100, D)).astype(np.float32)
    memory, everything = MemoryBank(capacity, D, CPU), []
    for count in pushes:
        ids = torch.arange(len(everything), len(everything) + count) % 100
        memory.push(torch.from_numpy(bank_MD[ids.numpy()]), ids)
        everything += ids.tolist()
    assert sorted(memory.ids_K[: memory.count].tolist()) == sorted(everything[-capacity:])
    again = MemoryBank(capacity, D, CPU)
    again.restore(memory.state(), bank_MD)
    assert torch.equal(again.vectors_KD[: again.count], memory.vectors_KD[: memory.count])
    assert (again.head, again.count) == (memory.head, memory.count)
