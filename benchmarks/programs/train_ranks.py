"""Two gloo ranks under DistributedDataParallel that take the agent's hooks in and out in turns.

Even blocks run with the hooks, odd ones without; both ranks switch at the same block. Each rank
writes a JSON line with the median CPU seconds of a step, of each of its blocks, to
`FOLDER/RANK.json`, and rank 0 makes `FOLDER/steady` when the warm-up is over. The first steps of
a block are left out: they pay for the switch, since the interpreter has fitted its code to what
was called before.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARM_UP_BLOCKS = 20
LEFT_OUT_STEPS = 10


def wrapped_places():
    """Every attribute that the agent has wrapped, with the wrapper and what was there before."""
    bindings = sys.modules["torch._C._distributed_c10d"]
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    found = []
    for owner, name in (
        (torch.autograd, "backward"),
        (iterator, "__next__"),
        (bindings.ProcessGroup, "allreduce"),
        (bindings.Work, "wait"),
        (bindings.Reducer, "prepare_for_backward"),
    ):
        wrapper = plain = vars(owner)[name]
        while (parts := parts_of(plain)) is not None:  # it may have been wrapped twice
            plain = parts[0]
        if plain is not wrapper:
            found.append((owner, name, wrapper, plain))
    return found


def parts_of(wrapper):
    function = getattr(wrapper, "__func__", wrapper)
    return getattr(getattr(function, "__self__", None), "parts", None)


def make_switch():
    places = wrapped_places()
    optimizer = sys.modules["torch.optim.optimizer"]
    tables = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
    kept = [dict(table) for table in tables]

    def switch(is_on):
        for owner, name, wrapper, plain in places:
            setattr(owner, name, wrapper if is_on else plain)
        for table, hooks in zip(tables, kept, strict=True):
            table.clear()
            if is_on:
                table.update(hooks)

    return switch, len(places) + sum(map(bool, kept))


def make_model():
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers)


def train(rank, folder, blocks, block_steps):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    rows = 64 * blocks * block_steps
    data = TensorDataset(torch.randn(2048, 256).repeat(rows // 2048 + 1, 1))
    batches = iter(DataLoader(data, 64))
    switch, hooks = make_switch()
    taken = []
    for block in range(blocks):
        switch(block % 2 == 0)
        if block == WARM_UP_BLOCKS and rank == 0:
            (folder / "steady").touch()
        steps = []
        for _ in range(block_steps):
            began = time.process_time()
            (x,) = next(batches)
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(time.process_time() - began)
        taken.append(statistics.median(steps[LEFT_OUT_STEPS:]))
    (folder / f"{rank}.json").write_text(json.dumps({"hooks": hooks, "blocks": taken}))
    switch(True)
    dist.barrier()


if __name__ == "__main__":
    mp.spawn(train, (Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), nprocs=2)
