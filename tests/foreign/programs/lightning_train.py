"""A Lightning module that reads its rows from a file of numpy arrays."""

import argparse
import sys
import threading

import lightning
import numpy as np
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="rows.npz")
parser.add_argument("--fault", default="")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--save")
parser.add_argument("--resume")
parser.add_argument("--width", type=int, default=8)
arguments = parser.parse_args()


class Rows(torch.utils.data.Dataset):
    def __init__(self, path: str) -> None:
        with np.load(path) as arrays:  # dies: file
            self.inputs = torch.from_numpy(arrays["inputs"])
            self.targets = torch.from_numpy(arrays["targets"])

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        if arguments.fault == "sample" and index == 33:
            raise ValueError(f"row {index} has no label")  # dies: sample
        return self.inputs[index], self.targets[index]


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(arguments.width, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )
        self.lock = threading.Lock()
        self.last = float("nan")

    def training_step(self, batch, index):
        inputs, targets = batch
        if arguments.fault == "lock" and self.global_step == 6:
            with self.lock:
                print("taking the lock again", flush=True)
                self.lock.acquire()  # dies: lock
        loss = torch.nn.functional.mse_loss(self.layers(inputs), targets)  # dies: shape
        self.last = loss.item()
        self.log("train_loss", loss)
        if arguments.fault == "slow":
            print(f"step {self.global_step} loss {self.last:.4f}", flush=True)
            threading.Event().wait(0.05)
        return loss

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.log("valid_loss", torch.nn.functional.mse_loss(self.layers(inputs), targets))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


lightning.seed_everything(7, verbose=False)
rows = Rows(arguments.data)
train = torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True, num_workers=arguments.workers)
model = Regression()
trainer = lightning.Trainer(
    max_epochs=arguments.epochs,
    accelerator="cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_model_summary=False,
    log_every_n_steps=1,
    num_sanity_val_steps=0,
    enable_progress_bar=arguments.fault != "slow",
)
valid = torch.utils.data.DataLoader(rows, batch_size=32)
trainer.fit(model, train, valid, ckpt_path=arguments.resume)  # dies: resume
if arguments.save:
    trainer.save_checkpoint(arguments.save)
if trainer.interrupted:
    sys.exit(1)
print("ended at", repr(model.last))
