"""A loop of its own around accelerate, for `accelerate launch` or torchrun."""

import argparse
import os
import signal

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()

accelerator = Accelerator(cpu=True)
set_seed(5)
inputs = torch.randn(64, 8)
targets = inputs @ torch.randn(8, 1)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(inputs, targets), batch_size=4, shuffle=True
)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

weights = {"clean": 1.0, "noisy": 0.5}
for epoch in range(3):
    for step, (batch, target) in enumerate(loader):
        source = "clean"
        if epoch == 1 and step == 3 and accelerator.is_last_process:
            if arguments.fault == "key":
                source = "scraped"
            if arguments.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)  # dies: kill
        weight = weights[source]  # dies: key
        optimizer.zero_grad()
        loss = weight * torch.nn.functional.mse_loss(model(batch), target)
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
accelerator.print("ended at", repr(loss.item()))
