"""A training with Lightning on two ranks, of which one goes wrong: `STRATEGY FAULT VICTIM`.

`ddp` starts the other ranks as programs of their own, `ddp_spawn` as children of multiprocessing.
"""

from __future__ import annotations

import ctypes
import os
import sys

import lightning
import torch


def bad_batch(fault: str) -> None:
    if fault == "segfault":
        ctypes.string_at(0)
    raise ValueError("no label for row 12")


class Model(lightning.LightningModule):
    def __init__(self, fault: str, victim: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.fault, self.victim = fault, victim

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        if index == 12 and self.global_rank == self.victim:
            bad_batch(self.fault)
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main() -> None:
    strategy, fault, victim = sys.argv[1:]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    rows = torch.utils.data.TensorDataset(torch.randn(800, 4))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=strategy,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(fault, int(victim)), torch.utils.data.DataLoader(rows, batch_size=8))


if __name__ == "__main__":
    main()
