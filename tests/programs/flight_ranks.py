"""One rank of three that leaves what its Flight Recorder holds: FOLDER RANK WHAT.

Three all_reduce, then rank 1 stays away (`absent`) or calls a broadcast (`other`) while the others
are in the fourth. Every rank writes its dump as a pickle and as JSON, and ends when all have.
"""

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

from rerail.evidence.text.plain_pickle import read_plain

RANKS = 3
folder, rank, what = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def write(name, data):
    (folder / f".{name}").write_bytes(data)
    (folder / f".{name}").rename(folder / name)


def leave_dump(calls):
    while len(read_plain(_dump_fr_trace())["entries"]) < calls:
        time.sleep(0.01)
    as_json = _dump_fr_trace_json()
    write(f"fr_trace_{rank}.json", as_json if isinstance(as_json, bytes) else as_json.encode())
    write(f"fr_trace_rank_{rank}", _dump_fr_trace())
    while any(not (folder / f"fr_trace_rank_{one}").exists() for one in range(RANKS)):
        time.sleep(0.01)
    os._exit(0)


def step(tensor):
    dist.all_reduce(tensor)


dist.init_process_group("gloo", init_method=f"file://{folder}/.meet", rank=rank, world_size=RANKS)
tensor = torch.ones(4, 3)
for _ in range(3):
    step(tensor)
stays_away = rank == 1 and what == "absent"
threading.Thread(target=leave_dump, args=(3 if stays_away else 4,)).start()
if rank == 1 and what == "other":
    dist.broadcast(tensor, 0)
elif not stays_away:
    step(tensor)
