"""One process or several: who computes which rows, and how they agree.

Under `torchrun --nproc-per-node N` each process computes its share of every micro-batch against
the targets of all of it: documents are data, so nobody has to send them, and the negatives are
those of a single process. What is exchanged is one flat gradient per optimizer step, mined ids,
and losses for the record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from twotower.archive import Array


@dataclass(frozen=True)
class Ranks:
    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def owns(self, place_in_micro: Array, batch_size: int) -> Array:
        """Whether this process computes the row at this place of a micro-batch."""
        owned: Array = place_in_micro // (batch_size // self.world_size) == self.rank
        return owned

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        if self.world_size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= self.world_size
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))

    def mean(self, value: float) -> float:
        if self.world_size == 1:
            return value
        total = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(total)
        return float(total) / self.world_size

    def share(self, rows: Array) -> Array:
        """This process's part of some work, so that the parts together are all of it."""
        return np.array_split(rows, self.world_size)[self.rank]

    def collect(self, part: Tensor) -> Tensor:
        """The parts of all processes, in the order that `share` gave them out."""
        if self.world_size == 1:
            return part
        parts: list[Tensor | None] = [None] * self.world_size
        dist.all_gather_object(parts, part)
        return torch.cat([p for p in parts if p is not None])

    def agree(self, value: str) -> str:
        """The first process's value, in all of them."""
        values = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        if self.world_size > 1:
            dist.barrier()


def join_ranks(device: torch.device) -> Ranks:
    """What torchrun says in the environment, or a single process."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        return Ranks()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Ranks(dist.get_rank(), world_size)


def leave_ranks(ranks: Ranks) -> None:
    if ranks.world_size > 1:
        dist.destroy_process_group()
