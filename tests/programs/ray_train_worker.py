"""Two workers of Ray Train, recorded by one line; the second is killed after four steps."""

import os
import signal
import sys
from pathlib import Path

import ray
import torch
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import rerail.ray


def train_loop() -> None:
    rank = train.get_context().get_world_rank()
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        if rank == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.randn(8, 4)).sum().backward()
        optimizer.step()


folder = Path(sys.argv[1]).absolute()
ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20)
TorchTrainer(
    train_loop,
    scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
    run_config=RunConfig(
        storage_path=str(folder / "out"),
        worker_runtime_env=rerail.ray.runtime_env(home=folder / "home"),
    ),
).fit()
