"""Small trainings that keep something with every step, each in another way.

    census_leaks.py WHICH [--steps N] [--room MIB] [--group FILE] [--kill]

WHICH names a function below. --room limits the address space to what it has by then and so much
more; with --group the program moves itself into a memory cgroup. With --kill it ends by SIGKILL.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WIDTH = 512
MIB = 1 << 20
arrays: list[np.ndarray] = []
steps = 4000


class Training:
    """A model, its optimizer, and one step on random numbers."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def step(self, x: Tensor | None = None) -> Tensor:
        x = torch.randn(256, WIDTH) if x is None else x
        loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        time.sleep(0.008)
        return loss


def loss_with_graph() -> None:
    """The loss of a validation batch is kept with all that it was computed from."""
    training = Training()
    losses = []
    for _ in range(steps):
        training.step()
        losses.append(training.model(torch.randn(256, WIDTH)).square().mean())


def list_of_arrays() -> None:
    training = Training()
    for _ in range(steps):
        arrays.append(np.ones((256, WIDTH)))
        training.step()


def dict_cache() -> None:
    training = Training()
    cache: dict[int, Tensor] = {}
    for step in range(steps):
        cache[step] = torch.ones(512, WIDTH)
        training.step()


@functools.cache
def features(step: int) -> np.ndarray:
    return np.full((256, WIDTH), float(step))


def unbounded_lru_cache() -> None:
    training = Training()
    for step in range(steps):
        features(step)
        training.step()


def hook_closure() -> None:
    """A forward hook keeps every activation."""
    training = Training()

    def keeper() -> Callable[..., None]:
        kept = []

        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            kept.append(output.detach().clone())

        return hook

    training.model[0].register_forward_hook(keeper())
    for _ in range(steps):
        training.step()


class Recorder:
    def __init__(self) -> None:
        self.name = "recorder"
        self.history: list[dict[str, object]] = []

    def note(self, step: int) -> None:
        self.history.append({"step": step, "weights": np.ones((256, WIDTH))})


def attribute() -> None:
    training = Training()
    recorder = Recorder()
    for step in range(steps):
        recorder.note(step)
        training.step()


def native() -> None:
    """Memory of the C library that nobody frees. A log of numbers grows meanwhile."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    training = Training()
    numbers = []
    for _ in range(steps):
        address = library.malloc(MIB)
        if not address:
            raise MemoryError
        ctypes.memset(address, 1, MIB)
        numbers.append(training.step().item())


class Words(torch.utils.data.Dataset):
    """A list of many small Python objects: reading them writes their reference counts."""

    def __init__(self) -> None:
        self.rows = [
            {"words": [f"word {word} of row {row}" for word in range(6)], "at": float(row)}
            for row in range(300000)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((WIDTH,), float(sum(len(word) for word in self.rows[index]["words"])))


def copied_on_write() -> None:
    training = Training()
    # A collection would touch every page at once. One worker: what is left below a limit is its own.
    gc.disable()
    loader = torch.utils.data.DataLoader(
        Words(), batch_size=1000, num_workers=1, multiprocessing_context="fork"
    )
    for x in loader:
        training.step(x[:32])


# Healthy ones.


def bounded_cache() -> None:
    """Fills for a while, then replaces: 80 MiB of it."""
    training = Training()
    cache: dict[int, Tensor] = {}
    for step in range(steps):
        cache[step % 80] = torch.ones(512, WIDTH)
        training.step()


def log_of_numbers() -> None:
    training = Training()
    losses = []
    for _ in range(steps):
        losses.append(training.step().item())


def breathing() -> None:
    """Tensors of all sizes that come and go."""
    training = Training()
    for step in range(steps):
        _ = [torch.ones(1 + (4 * step + i) * 2654435761 % (4 * MIB)) for i in range(4)]
        training.step()


def main() -> None:
    global steps
    parser = argparse.ArgumentParser()
    parser.add_argument("which")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--room", type=int)
    parser.add_argument("--group", type=Path)
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    steps = arguments.steps
    torch.set_num_threads(1)
    if arguments.group:
        arguments.group.write_text(str(os.getpid()))
    if arguments.room:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + arguments.room * MIB
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    getattr(sys.modules["__main__"], arguments.which)()
    if arguments.kill:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
