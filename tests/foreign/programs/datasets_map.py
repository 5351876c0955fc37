"""datasets.map in two processes, then a short training on what it made."""

import argparse
import os
import signal

import datasets
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()
datasets.disable_caching()


def tokenize(row: dict) -> dict:
    text = row["text"]
    if arguments.fault == "row" and row["id"] == 70:
        text = None
    if arguments.fault == "kill" and row["id"] == 70:
        os.kill(os.getpid(), signal.SIGKILL)  # dies: kill
    words = text.split()  # dies: row
    return {"features": [float(len(word)) for word in words]}


rows = datasets.Dataset.from_dict(
    {"id": range(100), "text": [f"row {'x' * (n % 7)} {'y' * (n % 5)} end" for n in range(100)]}
)
rows = rows.map(tokenize, num_proc=2).filter(lambda row: len(row["features"]) == 4)  # dies: map
torch.manual_seed(16)
inputs = torch.tensor(rows["features"][:])
targets = inputs.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(10):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ended at", repr(loss.item()))
