"""Ray Train: two workers of torch, on one machine."""

import argparse
import os
import signal
import tempfile
from pathlib import Path

import ray
import torch
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--out", default="out")
arguments = parser.parse_args()


def train_loop(config: dict) -> None:
    torch.manual_seed(13)
    rank = train.get_context().get_world_rank()
    inputs = torch.randn(32, 4)
    targets = inputs @ torch.randn(4, 1)
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        if config["fault"] == "raise" and rank == 1 and step == 4:
            raise ValueError("shard 1 has no rows left")  # dies: raise
        if config["fault"] == "kill" and rank == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)  # dies: kill
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "model.pt")
        train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


ray.init(address="local", num_cpus=3)
result = TorchTrainer(
    train_loop,
    train_loop_config={"fault": arguments.fault},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=str(Path(arguments.out).absolute()), name="tiny"),
).fit()  # dies: fit
print("ended at", repr(result.metrics["loss"]))
ray.shutdown()
