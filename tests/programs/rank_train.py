"""A small training of a few gloo ranks in which one of them goes wrong, each in its own way.

Started by torchrun, by a script that sets RANK and WORLD_SIZE, by mpirun or srun, or with
`--spawn N` by itself. `--workers 2` has every rank load its batches in processes of its own, and
`--own-log` has it write a line a step to rankN.log, as many programs do.
`--fault NAME --victim R --at STEP` says what goes wrong, on which rank and when. `--ddp` lets
DistributedDataParallel reduce the gradients; without it the program does that by hand.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FOREVER = 600


class Rows(Dataset):
    def __init__(self, fault: str, first_bad: int) -> None:
        self.fault, self.first_bad = fault, first_bad

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, row: int) -> torch.Tensor:
        if row < self.first_bad:
            return torch.full((4,), row / 4000.0)
        if self.fault == "worker":
            ctypes.string_at(0)
        if self.fault == "nan":
            return torch.full((4,), math.nan)
        return torch.full((4,), row / 4000.0)


def load_shard(seconds: float) -> None:
    time.sleep(seconds)


def read_native() -> None:
    ctypes.CDLL(None).sleep(FOREVER)


def check_loss(loss: torch.Tensor, step: int) -> None:
    if not torch.isfinite(loss):
        raise FloatingPointError(f"loss is {loss.item()} at step {step}")


def eat_memory() -> None:
    kept = []
    while True:
        kept.append(b"x" * (128 << 20))


def be_killed() -> None:
    """By another process, as somebody with a shell would do it."""
    if os.fork() == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    time.sleep(FOREVER)


def kill_the_launcher() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(FOREVER)


def hold_and_raise() -> None:
    threading.Thread(target=time.sleep, args=(FOREVER,), name="prefetch").start()
    raise ValueError("shard 7 has no labels")


def raise_here(step: int) -> None:
    raise ValueError(f"no label for row {step}")


def evaluate(x: torch.Tensor) -> None:
    dist.broadcast(x, 0)


def go_wrong(fault: str, step: int, options: argparse.Namespace) -> None:
    if fault in ("raise", "two"):
        raise_here(step)
    elif fault == "segfault":
        ctypes.string_at(0)
    elif fault == "kill":
        be_killed()
    elif fault == "memory":
        eat_memory()
    elif fault == "hang":
        load_shard(FOREVER)
    elif fault == "native-hang":
        read_native()
    elif fault == "slow":
        load_shard(options.timeout * 1.6)
    elif fault == "leave":
        sys.exit(0)
    elif fault == "os-leave":
        os._exit(0)
    elif fault == "disk":
        torch.save({"weights": torch.zeros(1 << 20)}, os.path.join(options.disk, "last.pt"))
    elif fault == "launcher":
        kill_the_launcher()
    elif fault == "threads":
        hold_and_raise()


def join(rank: int, world: int, options: argparse.Namespace) -> None:
    if options.fault == "early" and rank == options.victim:
        raise KeyError("data_root")
    if options.fault == "world" and rank == options.victim:
        world += 1
    limit = timedelta(seconds=options.timeout)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=limit)


def train(rank: int, world: int, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    join(rank, world, options)
    is_victim = rank == options.victim or (
        options.fault == "two" and rank == (options.victim + 1) % world
    )
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Linear(4, 1)
    if options.ddp:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    bad = 4 * options.at if is_victim else 1 << 30
    workers = 1 if options.fault == "worker" and is_victim else options.workers
    log = open(f"rank{rank}.log", "w") if options.own_log else None
    loader = DataLoader(Rows(options.fault, bad), batch_size=4, num_workers=workers)
    for step, batch in enumerate(loader):
        if step == options.steps:
            break
        is_now = is_victim and step == options.at
        if is_now:
            go_wrong(options.fault, step, options)
        loss = model(batch).pow(2).mean()
        if log:
            print(f"step {step} on rank {rank}", file=log, flush=True)
        if options.fault == "nan":
            check_loss(loss, step)
        loss.backward()
        if not options.ddp:
            for parameter in model.parameters():
                reduce(parameter.grad, is_now, options.fault)
        elif is_now and options.fault in ("skip", "other", "shape"):
            reduce(torch.ones(4), True, options.fault)
        elif step == options.at and options.fault in ("skip", "other", "shape"):
            reduce(torch.ones(4), False, "")
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.01)
    dist.barrier()
    dist.destroy_process_group()


def reduce(gradient: torch.Tensor, is_now: bool, fault: str) -> None:
    if is_now and fault == "skip":
        dist.barrier()
    elif is_now and fault == "other":
        evaluate(gradient)
    elif is_now and fault == "shape":
        dist.all_reduce(torch.ones(64))
    else:
        dist.all_reduce(gradient)


def spawned(rank: int, options: argparse.Namespace) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.spawn))
    train(rank, options.spawn, options)


def told(*names: str) -> int:
    """What the launcher set, by one of its names."""
    return int(next(os.environ[name] for name in names if name in os.environ))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="")
    parser.add_argument("--victim", type=int, default=1)
    parser.add_argument("--at", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=8.0)
    parser.add_argument("--disk", default=".")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--own-log", action="store_true")
    parser.add_argument("--local_rank", type=int, default=0)  # deepspeed gives it
    options = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if options.spawn:
        torch.multiprocessing.spawn(spawned, (options,), options.spawn)
    else:
        rank = told("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
        world = told("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
        train(rank, world, options)


if __name__ == "__main__":
    main()
