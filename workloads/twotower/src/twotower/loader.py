"""Batches, in an order that is a function of the seed and the step.

Comes in: a split, the sizes, and the step to begin at. Goes out: for each optimizer step its
chunks: whole micro-batches together, with the rows of this process read into memory. Since the
order depends on nothing that happened before, a resumed run meets the batches an undisturbed one
would have met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array
from twotower.dataset import Split
from twotower.errors import TwotowerError
from twotower.ranks import Ranks

Gather = Callable[[Array, Array, Array], None]  # (x_NLD, rows_R, out_RLD)


@dataclass(frozen=True)
class Chunk:
    """Some whole micro-batches. C rows over all processes, R of them this process's own."""

    rows_C: Array  # pairs of the split
    own_R: Tensor  # places of this process's rows in rows_C
    micro_C: Tensor  # which micro-batch of the chunk each row is in
    x_RLD: Tensor
    y_CD: Tensor
    target_C: Tensor  # bank rows
    hidden_RI: Tensor  # bank rows that are no negatives of a query: its target, its own sequence
    step: int
    is_last: bool  # of its optimizer step

    @property
    def micro_batches(self) -> int:
        return int(self.micro_C[-1]) + 1


class Loader:
    def __init__(
        self,
        split: Split,
        batch_size: int,
        accum: int,
        seed: int,
        ranks: Ranks,
        encode_rows: int = 64,
        workers: int = 1,
        gather: Gather | None = None,
    ) -> None:
        if batch_size % ranks.world_size:
            raise TwotowerError(
                f"--batch-size {batch_size} does not divide among {ranks.world_size} processes"
            )
        self.split, self.batch_size, self.accum, self.seed = split, batch_size, accum, seed
        self.ranks, self.workers = ranks, workers
        self.window = batch_size * accum
        self.steps_per_epoch = len(split) // self.window
        if not self.steps_per_epoch:
            raise TwotowerError(
                f"an effective batch of {batch_size} x {accum} = {self.window} rows is more than "
                f"the {len(split)} pairs there are; lower --accum or --batch-size"
            )
        self._chunk_rows = max(1, encode_rows * ranks.world_size // batch_size) * batch_size
        self._gather = gather or gather_with_numpy
        self._permutation: tuple[int, Array] = (-1, np.empty(0, np.int64))

    def rows_of_step(self, step: int) -> Array:
        """The pairs of one optimizer step; an incomplete window at an epoch's end is left out."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._permutation[0] != epoch:
            shuffled = np.random.default_rng([self.seed, epoch]).permutation(len(self.split))
            self._permutation = (epoch, shuffled)
        return self._permutation[1][place * self.window : (place + 1) * self.window]

    def chunks(self, first_step: int, last_step: int) -> Iterator[Chunk]:
        """The chunks of these steps in order, read ahead by `workers` threads."""
        plan = (
            (step, start, self.rows_of_step(step)[start : start + self._chunk_rows])
            for step in range(first_step, last_step)
            for start in range(0, self.window, self._chunk_rows)
        )
        if not self.workers:
            for place in plan:
                yield self._read(*place)
            return
        waiting: deque[Future[Chunk]] = deque()
        with ThreadPoolExecutor(self.workers, "twotower-read") as pool:
            for place in plan:
                waiting.append(pool.submit(self._read, *place))
                if len(waiting) > self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _read(self, step: int, start: int, rows_C: Array) -> Chunk:
        place_C = np.arange(len(rows_C))
        micro_C, place_in_micro_C = divmod(place_C, self.batch_size)
        own_R = np.flatnonzero(self.ranks.owns(place_in_micro_C, self.batch_size))
        x_RLD = np.empty((len(own_R), *self.split.x_NLD.shape[1:]), np.float32)
        self._gather(self.split.x_NLD, rows_C[own_R], x_RLD)
        target_C = self.split.target_N[rows_C].astype(np.int64)
        hidden_RI = target_C[own_R][:, None]
        if self.split.context_NL is not None:
            context_RL = self.split.context_NL[rows_C[own_R]]
            hidden_RI = np.concatenate((hidden_RI, context_RL), axis=1)
        return Chunk(
            rows_C=rows_C,
            own_R=torch.from_numpy(own_R),
            micro_C=torch.from_numpy(micro_C),
            x_RLD=torch.from_numpy(x_RLD),
            y_CD=torch.from_numpy(self.split.y_ND[rows_C]),
            target_C=torch.from_numpy(target_C),
            hidden_RI=torch.from_numpy(hidden_RI),
            step=step,
            is_last=start + len(rows_C) >= self.window,
        )


def gather_with_numpy(x_NLD: Array, rows_R: Array, out_RLD: Array) -> None:
    # mode="clip" lets take() write straight into `out`; the rows are valid by construction.
    np.take(x_NLD, rows_R, axis=0, out=out_RLD, mode="clip")
