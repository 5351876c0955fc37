"""Logs made of everything that rerail looks for, in any order and any number, through `explain`."""

from __future__ import annotations

import functools
import random
import sys
from pathlib import Path

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes
from fuzz_runner import HERE, Target

from rerail.catalogue import load_catalogue, spaced
from rerail.platform.wordings import source_files, source_table

sys.path.insert(0, str(HERE.parent))
from adversarial import attacks  # the strings that nearly match a pattern

MOST_BYTES = 200_000
_LINES = [
    "step 12/100 loss 0.5 lr 1e-4",
    "Epoch 3/10",
    " 42%|####  | 472/1122 [02:10<03:00,  3.61it/s]",
    "{'loss': 2.31, 'grad_norm': nan, 'epoch': 0.43}",
    "Traceback (most recent call last):",
    '  File "train.py", line 7, in <module>',
    "    return self.model(x)",
    "ValueError: bad sample 4711",
    "During handling of the above exception, another exception occurred:",
    "[rank3]: RuntimeError: NCCL error",
    "Killed",
    "Segmentation fault (core dumped)",
    "exitcode  : -9 (pid: 4711)",
    "Root Cause (first observed failure):",
    "  rank      : 1 (local_rank: 1)",
    "#0  0x00007f in raise () from /lib/libc.so.6",
    "Fatal Python error: Segmentation fault",
    "Current thread 0x00007f (most recent call first):",
    "rss memory used: 512 MB",
    "import torch",
    "",
    "\x1b[31mred\x1b[0m\rredrawn\rredrawn",
    "2026-11-17 10:00:00,123 INFO all well",
    "[Rank 0] WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1)",
    *(
        line
        for path in source_files()
        for each in source_table(path)["wording"]
        for line in each["matches"]
    ),
]


@functools.cache
def _patterns() -> list[str]:
    return [spaced(s.pattern) for cause in load_catalogue() for s in cause.signatures]


@functools.cache
def _said() -> list[str]:
    return [text for cause in load_catalogue() for text in (*cause.matches, *cause.near_misses)]


def _piece(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(_LINES) + "\n"
    if kind < 0.6:
        return rng.choice(_said()) + "\n"
    if kind < 0.8:
        nearly = list(attacks(rng.choice(_patterns()), rng.choice([50, 500, 5000, 30_000])))
        return (rng.choice(nearly) if nearly else "") + rng.choice(["\n", "", "\r"])
    if kind < 0.9:
        return rng.choice(_LINES) * rng.choice([2, 50, 3000])
    return (rng.choice(_LINES) + "\n") * rng.choice([2, 50, 1000])


def make(rng: random.Random, folder: Path) -> bytes:
    text = "".join(_piece(rng) for _ in range(rng.choice([1, 4, 20, 80])))[:MOST_BYTES]
    data = text.encode("utf-8", "replace")
    return mutate_bytes(rng, data) if rng.random() < 0.3 else data


def check(data: bytes, bars: Bars) -> None:
    log = Path("train.log")
    log.write_bytes(data)
    bars.command("explain", str(log), statuses=(0, 1, 2))
    bars.command("explain", "--json", str(log), statuses=(0, 1, 2))


TARGET = Target(make, check, cases=60)
